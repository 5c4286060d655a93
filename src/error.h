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

inline Error error_of(sdtw_status status, const char *format, va_list args) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, args);
  return {status, text};
}

// Throws Error{status, printf-formatted message}. Messages name the argument, what it was and what it may be.
[[noreturn]] __attribute__((format(printf, 2, 3))) inline void fail(sdtw_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const Error error = error_of(status, format, args);
  va_end(args);
  throw error;
}

// The same with SDTW_STATUS_INVALID_ARGUMENT.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void invalid(const char *format, ...) {
  va_list args;
  va_start(args, format);
  const Error error = error_of(SDTW_STATUS_INVALID_ARGUMENT, format, args);
  va_end(args);
  throw error;
}

}  // namespace sdtw
