/* The mathematics that a kernel can use with no C library, under <math.h>'s names.
 *
 * Kernels are built freestanding, where calls by these names would stay calls. Those that CPUs do in an instruction or
 * two become builtins here; the rest is declared, and becomes part of the kernel.
 */
#ifndef OPSPLICE_MATH_H
#define OPSPLICE_MATH_H

#ifdef __cplusplus
extern "C" {
#endif

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VAL (__builtin_huge_val())
#define HUGE_VALF (__builtin_huge_valf())

#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define isnormal(x) __builtin_isnormal(x)
#define signbit(x) __builtin_signbit(x)

#define fabs(x) __builtin_fabs(x)
#define fabsf(x) __builtin_fabsf(x)
#define sqrt(x) __builtin_sqrt(x)
#define sqrtf(x) __builtin_sqrtf(x)
#define copysign(x, y) __builtin_copysign(x, y)
#define copysignf(x, y) __builtin_copysignf(x, y)
#define floor(x) __builtin_floor(x)
#define floorf(x) __builtin_floorf(x)
#define ceil(x) __builtin_ceil(x)
#define ceilf(x) __builtin_ceilf(x)
#define trunc(x) __builtin_trunc(x)
#define truncf(x) __builtin_truncf(x)
#define rint(x) __builtin_rint(x)
#define rintf(x) __builtin_rintf(x)
#define nearbyint(x) __builtin_nearbyint(x)
#define nearbyintf(x) __builtin_nearbyintf(x)
#define round(x) __builtin_round(x)
#define roundf(x) __builtin_roundf(x)
#define roundeven(x) __builtin_roundeven(x)
#define roundevenf(x) __builtin_roundevenf(x)
#define fma(x, y, z) __builtin_fma(x, y, z)
#define fmaf(x, y, z) __builtin_fmaf(x, y, z)

/* Not builtins: GCC turns those into calls unless NaNs are ruled out. The larger or smaller one, and the other one
 * where one is a NaN, as C says. */
static inline float opsplice_fmaxf(float x, float y) { return (x > y || y != y) ? x : y; }
static inline float opsplice_fminf(float x, float y) { return (x < y || y != y) ? x : y; }
static inline double opsplice_fmax(double x, double y) { return (x > y || y != y) ? x : y; }
static inline double opsplice_fmin(double x, double y) { return (x < y || y != y) ? x : y; }
#define fmax(x, y) opsplice_fmax(x, y)
#define fmaxf(x, y) opsplice_fmaxf(x, y)
#define fmin(x, y) opsplice_fmin(x, y)
#define fminf(x, y) opsplice_fminf(x, y)

/* Each function of doubles, and the same of floats with an `f` behind its name. */
#define OPSPLICE_FUNCTIONS(real, f) \
  real acos##f(real), acosh##f(real), asin##f(real), asinh##f(real), atan##f(real), atanh##f(real), cbrt##f(real), \
      cos##f(real), cosh##f(real), erf##f(real), erfc##f(real), exp##f(real), exp10##f(real), exp2##f(real), \
      expm1##f(real), lgamma##f(real), log##f(real), log10##f(real), log1p##f(real), log2##f(real), logb##f(real), \
      sin##f(real), sinh##f(real), tan##f(real), tanh##f(real), tgamma##f(real); \
  real atan2##f(real, real), fdim##f(real, real), fmod##f(real, real), hypot##f(real, real), nextafter##f(real, real), \
      pow##f(real, real), remainder##f(real, real); \
  real frexp##f(real, int *), ldexp##f(real, int), modf##f(real, real *), remquo##f(real, real, int *), \
      scalbln##f(real, long), scalbn##f(real, int); \
  int ilogb##f(real); \
  long lrint##f(real), lround##f(real); \
  long long llrint##f(real), llround##f(real);
OPSPLICE_FUNCTIONS(double, )
OPSPLICE_FUNCTIONS(float, f)
#undef OPSPLICE_FUNCTIONS

#ifdef __cplusplus
}
#endif

#endif
