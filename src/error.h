// The one exception type. Thrown anywhere inside, turned into a status and a message in api.cpp.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

#include "sdtw.h"

namespace sdtw {

struct Error {
  sdtw_status status;
  std::string message;
};

// Throws Error{status, printf-formatted message}. Messages name the argument, what it was and what it may be.
[[noreturn]] __attribute__((format(printf, 2, 3))) inline void fail(sdtw_status status, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Error{status, text};
}

}  // namespace sdtw
