// Runs a CUDA kernel as a dispatch on a CPU. Each thread of a workgroup has a stack of its own and runs until it meets a
// barrier or a shuffle, or ends; then comes the next one. Every second workgroup takes its threads backwards, and what
// threads share starts as NaN, so that a missing barrier gives wrong numbers. Threads that wait at different places fail.
//
//   EMULATE(function, threads)
//
// For one core and x86-64: threads of different workgroups must not run at once.
#include <math.h>
#include <opsplice_dispatch.h>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("opsplice_shared")))

namespace emulated {

constexpr unsigned MOST = 1024, WARP = 32, STACK = 16384;
enum State { READY, AT_SHUFFLE, AT_BARRIER, DONE };
struct Index {
  unsigned x, y, z;
};
struct Thread {
  void *stack;
  State state;
  unsigned place;
  alignas(8) char given[8];
};

static Thread threads[MOST];
static unsigned running, count;
static void *scheduler;
static void (*body)();
static Index block, size, grid;
alignas(16) static char stacks[MOST][STACK];

__attribute__((naked, noinline)) static void swap(void **from, void *to) {
  asm volatile(
      "pushq %%rbp\n pushq %%rbx\n pushq %%r12\n pushq %%r13\n pushq %%r14\n pushq %%r15\n"
      "movq %%rsp, (%%rdi)\n movq %%rsi, %%rsp\n"
      "popq %%r15\n popq %%r14\n popq %%r13\n popq %%r12\n popq %%rbx\n popq %%rbp\n ret" ::: "memory");
}

// Ends this thread's turn.
__attribute__((noinline)) static void wait(State state, unsigned place) {
  threads[running].state = state, threads[running].place = place;
  swap(&threads[running].stack, scheduler);
}

static void begin() {
  body();
  wait(DONE, 0);
}

// Whether those from `first` to `end` wait for one another at one place. Those that are done are not waited for.
static bool are_met(State state, unsigned first, unsigned end) {
  unsigned place = 0;
  for (unsigned i = first; i < end; ++i) {
    if (threads[i].state == DONE) continue;
    if (threads[i].state != state || (place && threads[i].place != place)) return false;
    place = threads[i].place;
  }
  return place != 0;
}

static unsigned released(State state, unsigned width) {
  unsigned found = 0;
  for (unsigned first = 0; first < count; first += width) {
    unsigned end = first + width < count ? first + width : count;
    if (!are_met(state, first, end)) continue;
    for (unsigned i = first; i < end; ++i)
      if (threads[i].state != DONE) threads[i].state = READY, ++found;
  }
  return found;
}

// Runs a workgroup. False if some threads wait for ever.
static bool run(bool is_backwards) {
  for (unsigned i = 0; i < count; ++i) {
    void **top = (void **)(stacks[i] + STACK - 64);
    for (unsigned j = 0; j < 6; ++j) top[j] = nullptr;
    top[6] = (void *)begin;
    threads[i].stack = top, threads[i].state = READY;
  }
  do {
    for (unsigned i = 0; i < count; ++i) {
      running = is_backwards ? count - 1 - i : i;
      if (threads[running].state == READY) swap(&scheduler, threads[running].stack);
    }
  } while (released(AT_SHUFFLE, WARP) + released(AT_BARRIER, MOST));
  for (unsigned i = 0; i < count; ++i)
    if (threads[i].state != DONE) return false;
  return true;
}

template <class T>
static T exchanged(T own, unsigned other, unsigned place) {
  __builtin_memcpy(threads[running].given, &own, sizeof own);
  wait(AT_SHUFFLE, place);
  __builtin_memcpy(&own, threads[other].given, sizeof own);
  wait(AT_SHUFFLE, place);
  return own;
}

static int any(bool own, unsigned place) {
  threads[running].given[0] = own;
  wait(AT_BARRIER, place);
  for (unsigned i = 0; i < count; ++i) own = own || threads[i].given[0];
  wait(AT_BARRIER, place);
  return own;
}

// What a kernel's parameter gets: a pointer the next buffer, anything else the next word.
struct Given {
  const opsplice_dispatch *dispatch;
  unsigned buffer = 0, word = 0;

  template <class T>
  operator T *() { return (T *)dispatch->bindings[buffer++]; }
  operator unsigned() { return dispatch->constants[word++]; }
  operator int() { return (int)dispatch->constants[word++]; }
  operator float() { return __builtin_bit_cast(float, dispatch->constants[word++]); }
};

static const opsplice_dispatch *passed;

template <auto function>
struct Call;
template <class... Types, void (*function)(Types...)>
struct Call<function> {
  static void call() {
    Given given{passed};
    invoke(Types(given)...);
  }
  static void invoke(Types... values) { function(values...); }
};

}  // namespace emulated

#define threadIdx (emulated::Index{emulated::running, 0, 0})
#define blockIdx emulated::block
#define gridDim emulated::grid
#define blockDim emulated::size
#define __syncthreads() emulated::wait(emulated::AT_BARRIER, __LINE__)
#define __syncthreads_or(own) emulated::any(own, __LINE__)
#define __shfl_sync(mask, own, lane) \
  emulated::exchanged(own, emulated::running / emulated::WARP * emulated::WARP + (lane), __LINE__)
#define __shfl_xor_sync(mask, own, step) emulated::exchanged(own, emulated::running ^ (step), __LINE__)

static inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline int __dp4a(int a, int b, int sum) {
  for (unsigned shift = 0; shift < 32; shift += 8) sum += (signed char)(a >> shift) * (signed char)(b >> shift);
  return sum;
}

extern "C" __attribute__((weak, visibility("hidden"))) char __start_opsplice_shared[], __stop_opsplice_shared[];

#define EMULATE(function, threads_)                                                                               \
  extern "C" int function##_emulated(const void *, const opsplice_dispatch *dispatch,                             \
                                     const opsplice_workgroup *workgroup) {                                       \
    emulated::block = {workgroup->x, workgroup->y, workgroup->z};                                                 \
    emulated::grid = {dispatch->workgroup_count_x, dispatch->workgroup_count_y, dispatch->workgroup_count_z};     \
    emulated::size = {threads_, 1, 1}, emulated::count = threads_, emulated::passed = dispatch;                   \
    emulated::body = emulated::Call<function>::call;                                                              \
    for (char *at = __start_opsplice_shared; at != __stop_opsplice_shared; ++at) *at = (char)0xff;                \
    return emulated::run((workgroup->x + workgroup->y + workgroup->z) % 2) ? 0 : 1;                               \
  }
