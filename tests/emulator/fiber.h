// Fibers: the stacks of threads that one host thread runs in turn, and how it goes from one to the other.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include "emulator.h"

namespace emulator {

constexpr size_t stack_bytes = 256 << 10, page = 4096;

// A stack, with a page below it that must not be touched.
class Stack {
 public:
  Stack() {
    void *all =
        mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) stop("no memory for a stack");
    base_ = static_cast<char *>(all);
    mprotect(base_, page, PROT_NONE);
  }
  Stack(const Stack &) = delete;
  Stack &operator=(const Stack &) = delete;
  ~Stack() { munmap(base_, stack_bytes + page); }
  char *begin() const { return base_ + page; }

 private:
  char *base_;
};

// Where a fiber goes on. On x86-64 a switch is a handful of instructions; elsewhere the C library's, which asks the
// kernel for the signal mask every time.
#ifdef __x86_64__
extern "C" void sdtw_emulator_switch(void **save_to, void *go_on);
asm(R"(
.text
.type sdtw_emulator_switch, @function
sdtw_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sdtw_emulator_switch, .-sdtw_emulator_switch
)");
#endif

struct Fiber {
  char *stack = nullptr;  // null: the host thread itself
#ifdef __x86_64__
  void *top = nullptr;
#else
  ucontext_t context;
#endif
#ifdef __SANITIZE_ADDRESS__
  void *fake_stack = nullptr;
  const void *bottom = nullptr;
  size_t bytes = 0;
#endif

  void begin(char *on_stack, void (*entry)()) {
    stack = on_stack;
#ifdef __SANITIZE_ADDRESS__
    ASAN_UNPOISON_MEMORY_REGION(stack, stack_bytes);
    fake_stack = nullptr, bottom = stack, bytes = stack_bytes;
#endif
#ifdef __x86_64__
    void **at = reinterpret_cast<void **>(stack + stack_bytes) - 1;  // entry finds the stack as after a call
    *--at = reinterpret_cast<void *>(entry);
    for (int saved = 0; saved < 6; saved++) *--at = nullptr;
    top = at;
#else
    getcontext(&context);
    context.uc_stack.ss_sp = stack, context.uc_stack.ss_size = stack_bytes, context.uc_link = nullptr;
    makecontext(&context, entry, 0);
#endif
  }
};

// ends: the running fiber will not go on.
inline void switch_fibers(Fiber &from, Fiber &to, [[maybe_unused]] bool ends = false) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.bottom, to.bytes);
#endif
#ifdef __x86_64__
  sdtw_emulator_switch(&from.top, to.top);
#else
  swapcontext(&from.context, &to.context);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

}  // namespace emulator
