// Enough of Metal's language for g++ (C++17) to compile and run the kernels on the processor, one workgroup after the other.
//
// Each thread of a workgroup is a context of its own; a barrier hands over to the next one. All threads have to reach the
// same barrier: one that ends while others wait, or the other way round, stops the program. With ORDER=reverse in the
// environment threads run the other way, so that a missing barrier shows.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define kernel
#define device
#define constant
#define threadgroup
#define thread

typedef _Float16 half;

template <class T, int N> struct members;
template <class T> struct members<T, 2> { T x, y; };
template <class T> struct members<T, 3> { T x, y, z; };
template <class T> struct members<T, 4> { T x, y, z, w; };

// A scalar operand takes the type of the vector, whatever its own.
template <class T> struct same { typedef T type; };

template <class T, int N> struct vec : members<T, N> {
  vec() = default;
  explicit vec(T a) { for (int i = 0; i < N; i++) (*this)[i] = a; }
  template <class... A, class = std::enable_if_t<sizeof...(A) == N>> vec(A... a) {
    T all[] = {T(a)...};
    memcpy(static_cast<void*>(this), all, sizeof all);
  }
  template <class U, class = std::enable_if_t<!std::is_same_v<T, U>>> explicit vec(const vec<U, N>& o) {
    for (int i = 0; i < N; i++) (*this)[i] = T(o[i]);
  }
  T& operator[](int i) { return reinterpret_cast<T*>(this)[i]; }
  const T& operator[](int i) const { return reinterpret_cast<const T*>(this)[i]; }
};

#define OPERATOR(op) \
  template <class T, int N> vec<T, N> operator op(vec<T, N> a, vec<T, N> b) { \
    for (int i = 0; i < N; i++) a[i] = T(a[i] op b[i]); \
    return a; \
  } \
  template <class T, int N> vec<T, N> operator op(vec<T, N> a, typename same<T>::type b) { return a op vec<T, N>(b); } \
  template <class T, int N> vec<T, N> operator op(typename same<T>::type a, vec<T, N> b) { return vec<T, N>(a) op b; }
OPERATOR(+)
OPERATOR(-)
OPERATOR(*)
OPERATOR(/)
template <class T, int N> vec<T, N> operator-(vec<T, N> a) {
  for (int i = 0; i < N; i++) a[i] = -a[i];
  return a;
}

template <class To, class From> To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

void wait_for_all();

// Threads of a subgroup; which of them a thread exchanges a value with.
constexpr uint32_t SUBGROUP = 16;
float exchange(float value, uint32_t mask);

namespace metal {
typedef uint32_t uint;
#define VECTORS(t) typedef vec<t, 2> t##2; typedef vec<t, 3> t##3; typedef vec<t, 4> t##4;
VECTORS(float)
VECTORS(half)
VECTORS(int)
VECTORS(uint)
VECTORS(bool)
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
inline mem_flags operator|(mem_flags a, mem_flags) { return a; }
inline void threadgroup_barrier(mem_flags) { wait_for_all(); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
template <int N> vec<float, N> fma(vec<float, N> a, vec<float, N> b, vec<float, N> c) {
  for (int i = 0; i < N; i++) a[i] = std::fma(a[i], b[i], c[i]);
  return a;
}
inline float simd_shuffle_xor(float value, uint mask) { return exchange(value, mask); }
inline float exp(float x) { return std::exp(x); }
inline float sqrt(float x) { return std::sqrt(x); }
template <class T> T max(T a, T b) { return a > b ? a : b; }
template <class T> T min(T a, T b) { return a < b ? a : b; }
template <class T> T select(T no, T yes, bool c) { return c ? yes : no; }
// One thread runs at a time.
struct atomic_uint { uint value; };
enum memory_order { memory_order_relaxed };
inline uint atomic_load_explicit(const atomic_uint* a, memory_order) { return a->value; }
inline void atomic_store_explicit(atomic_uint* a, uint v, memory_order) { a->value = v; }
inline uint atomic_fetch_max_explicit(atomic_uint* a, uint v, memory_order) {
  uint old = a->value;
  a->value = max(old, v);
  return old;
}
}  // namespace metal
using namespace metal;

// One thread of a workgroup.
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool ended;
};

constexpr uint32_t THREADS = 64;
static Fiber fibers[THREADS];
static ucontext_t scheduler;
static uint32_t current;
static uint3 group;
static void (*body)(uint3, uint32_t);

inline void wait_for_all() { swapcontext(&fibers[current].context, &scheduler); }

// All threads of the workgroup come here together, which is stricter than what Metal asks for.
float exchange(float value, uint32_t mask) {
  static float values[THREADS];
  values[current] = value;
  wait_for_all();
  float other = values[current ^ mask];
  wait_for_all();
  return other;
}

static void run_one() {
  body(group, current);
  fibers[current].ended = true;
  swapcontext(&fibers[current].context, &scheduler);
}

static void run_group(uint3 at) {
  static const bool reverse = getenv("ORDER") && std::string(getenv("ORDER")) == "reverse";
  group = at;
  for (auto& f : fibers) {
    f.stack.resize(128 << 10);
    f.ended = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = nullptr;
    makecontext(&f.context, run_one, 0);
  }
  for (uint32_t ended = 0; ended < THREADS;) {
    for (uint32_t i = 0; i < THREADS; i++) {
      current = reverse ? THREADS - 1 - i : i;
      swapcontext(&scheduler, &fibers[current].context);
    }
    ended = 0;
    for (auto& f : fibers) ended += f.ended;
    if (ended != 0 && ended != THREADS) {
      fprintf(stderr, "%u of %u threads wait at a barrier that the others never reach\n", THREADS - ended, THREADS);
      exit(3);
    }
  }
}

// Reads buffers (a size each, then the bytes), runs the grid, writes the buffers back. Buffers are followed by zeros, so that
// a read behind the end is found by its value.
static std::vector<std::vector<char>> buffers;

static void run_file(const char* from, const char* to, uint32_t x, uint32_t y, uint32_t z) {
  FILE* in = fopen(from, "rb");
  uint32_t size;
  std::vector<uint32_t> sizes;
  while (fread(&size, 4, 1, in) == 1) {
    std::vector<char> bytes(size + 64, 0);
    if (fread(bytes.data(), 1, size, in) != size) exit(4);
    buffers.push_back(std::move(bytes));
    sizes.push_back(size);
  }
  fclose(in);
  for (uint32_t k = 0; k < z; k++)
    for (uint32_t j = 0; j < y; j++)
      for (uint32_t i = 0; i < x; i++) run_group(uint3(i, j, k));
  FILE* out = fopen(to, "wb");
  for (size_t i = 0; i < buffers.size(); i++) fwrite(buffers[i].data(), 1, sizes[i], out);
  fclose(out);
}
