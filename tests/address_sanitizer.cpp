// What the tests ask of AddressSanitizer, in the one file of theirs that is always compiled like the library.
#include "memory.h"

#if defined(__SANITIZE_ADDRESS__)
#define SDTW_TEST_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SDTW_TEST_ASAN
#endif
#endif

#ifdef SDTW_TEST_ASAN
#include <sanitizer/asan_interface.h>

bool test::has_address_sanitizer() { return true; }
void test::hide(const void *address, size_t bytes) { ASAN_POISON_MEMORY_REGION(address, bytes); }
void test::reveal(const void *address, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(address, bytes); }
bool test::call_before_death(void (*callback)()) {
  __sanitizer_set_death_callback(callback);
  return true;
}
#else
bool test::has_address_sanitizer() { return false; }
void test::hide(const void *, size_t) {}
void test::reveal(const void *, size_t) {}
bool test::call_before_death(void (*)()) { return false; }
#endif
