// Calls a kernel for a test that runs elsewhere: arguments come in on stdin, and a word on stdout says that it is done.
// Arrays lie in a file that both have in memory, each before a page that nobody may touch. Without a C library.
#include <stddef.h>
#include <stdint.h>

typedef uint64_t word;
struct entry { void (*function)(void); };
extern const struct entry functions[];

static long call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__aarch64__)
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
  register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c,
                a3 __asm__("a3") = d, a4 __asm__("a4") = e, a5 __asm__("a5") = f;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
#endif
}
enum { READ = 63, WRITE = 64, EXIT = 93, MAP = 222, PROTECT = 226, PAGE = 65536, MOST = 56 };

static void moved(long number, void *at, size_t size) {
  for (char *place = at; size;) {
    long done = call(number, number == WRITE, (long)place, (long)size, 0, 0, 0);
    if (done <= 0) call(EXIT, number == WRITE || place != at, 0, 0, 0, 0, 0);
    place += done;
    size -= done;
  }
}

static word next(void) {
  word value;
  moved(READ, &value, sizeof value);
  return value;
}

// Whole numbers and addresses are passed apart from floats, in registers first, so their order among each other is free.
typedef void (*kernel)(word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                       word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                       word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                       word, word, word, word, word, word, word, word, float, float, float, float);

void _start(void) {
  word file = next(), whole = next();
  char *shared = (char *)call(MAP, 0, (long)whole, 3, 1, (long)file, 0);
  for (;;) {
    word at = next(), count = next(), wholes = 0, fractions = 0, w[MOST] = {0};
    float f[4] = {0};
    char *ends[MOST];
    size_t held = 0;
    for (word i = 0; i < count; ++i) {
      word kind = next(), value = next();
      if (kind == 0) {
        w[wholes++] = value;
      } else if (kind == 1) {
        __builtin_memcpy(&f[fractions++], &value, sizeof(float));
      } else {
        w[wholes++] = (word)(shared + value);
        ends[held] = shared + next();
        call(PROTECT, (long)ends[held++], PAGE, 0, 0, 0, 0);
      }
    }
    kernel f_ = (kernel)functions[at].function;
    f_(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16],
       w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24], w[25], w[26], w[27], w[28], w[29], w[30], w[31], w[32],
       w[33], w[34], w[35], w[36], w[37], w[38], w[39], w[40], w[41], w[42], w[43], w[44], w[45], w[46], w[47], w[48],
       w[49], w[50], w[51], w[52], w[53], w[54], w[55], f[0], f[1], f[2], f[3]);
    for (size_t i = 0; i < held; ++i) call(PROTECT, (long)ends[i], PAGE, 3, 0, 0, 0);
    moved(WRITE, &at, sizeof at);
  }
}
