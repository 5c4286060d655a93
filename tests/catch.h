// The one include of Catch2, for version 2 (Debian 12) and version 3 (Debian 13, Ubuntu 24.04).
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
namespace catch_cli = Catch::Clara;
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#ifdef CATCH_CONFIG_RUNNER
namespace catch_cli = Catch::clara;
#endif
#endif
