// sweep: runs every candidate algorithm that Reigen times (32 of cuBLASLt for a shape, 64 MiB of
// workspace, no in-place reduction) on every row count of the same "kind" (sizes equal to four
// bits), as matmul.cpp does after cublasLtMatmulAlgoCheck. Reports errors and writes past the end of
// the workspace or of the output.
//   sweep rows PRODUCT FIRST   products of a step; exit 3 = CUDA error (line says where), else 0
//   sweep muon 0 FIRST         the three shapes of Muon on three streams at once, own workspaces
// Candidates FIRST.. are run; after an error start again with the next one (sweep.sh does).
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
using i64 = long long;
static std::string at = "start";
#define CHECK(x)                                                                                    \
  do {                                                                                              \
    cudaError_t e_ = (x);                                                                           \
    if (e_ != cudaSuccess) {                                                                        \
      printf("FAULT %s: %s at %s (line %d)\n", cudaGetErrorName(e_), cudaGetErrorString(e_),        \
             at.c_str(), __LINE__);                                                                 \
      fflush(stdout);                                                                               \
      _Exit(3);                                                                                     \
    }                                                                                               \
  } while (0)
#define BLAS(x)                                                                                     \
  do {                                                                                              \
    cublasStatus_t s_ = (x);                                                                        \
    if (s_ != CUBLAS_STATUS_SUCCESS) {                                                              \
      printf("cublas %d at %s line %d\n", (int)s_, at.c_str(), __LINE__);                           \
      exit(4);                                                                                      \
    }                                                                                               \
  } while (0)
constexpr size_t kWork = size_t{64} << 20, kGuard = size_t{1} << 20;
constexpr int kCount = 32;
__global__ void fill(__nv_bfloat16* p, size_t n, unsigned seed) {
  for (size_t i = blockIdx.x * size_t{256} + threadIdx.x; i < n; i += size_t{gridDim.x} * 256) {
    unsigned h = (unsigned)(i * 2654435761u) ^ seed;
    h ^= h >> 15; h *= 0x85ebca6bu; h ^= h >> 13;
    p[i] = __float2bfloat16((float)(h & 0xffff) / 65536.f - 0.5f);
  }
}
__global__ void guard_bad(const unsigned char* p, size_t n, unsigned* bad) {
  for (size_t i = blockIdx.x * size_t{256} + threadIdx.x; i < n; i += size_t{gridDim.x} * 256)
    if (p[i] != 0xA5) atomicAdd(bad, 1u);
}
struct Guarded {  // `bytes`, then a guard
  char* p = nullptr; size_t bytes = 0;
  void make(size_t b) { bytes = (b + 255) / 256 * 256; CHECK(cudaMalloc(&p, bytes + kGuard)); CHECK(cudaMemset(p, 0, bytes)); CHECK(cudaMemset(p + bytes, 0xA5, kGuard)); }
};
static unsigned* bad;
static bool broken(const char* base, size_t used) {  // bytes from `used` on, 256 KiB of them
  CHECK(cudaMemset(bad, 0, 4));
  guard_bad<<<64, 256>>>((const unsigned char*)base + used, 256 << 10, bad);
  unsigned b = 0; CHECK(cudaMemcpy(&b, bad, 4, cudaMemcpyDeviceToHost));
  return b != 0;
}
struct Matrix { i64 rows, cols; };  // row-major
struct Shape {
  Matrix a, b, c; bool ta, tb, f32; float beta; int batch = 1; bool add = false; float alpha = 1;
};
struct Plan {
  cublasLtMatmulDesc_t op; cublasLtMatrixLayout_t a, b, c;
  explicit Plan(const Shape& s) {
    BLAS(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    cublasOperation_t x = s.tb ? CUBLAS_OP_T : CUBLAS_OP_N, y = s.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    BLAS(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &x, sizeof x));
    BLAS(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSB, &y, sizeof y));
    auto lay = [&](Matrix m, cublasLtMatrixLayout_t* o, cudaDataType_t t) {
      BLAS(cublasLtMatrixLayoutCreate(o, t, m.cols, m.rows, m.cols));
      if (s.batch == 1) return;
      int32_t n = s.batch; int64_t off = m.rows * m.cols;
      BLAS(cublasLtMatrixLayoutSetAttribute(*o, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n));
      BLAS(cublasLtMatrixLayoutSetAttribute(*o, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &off, sizeof off));
    };
    lay(s.b, &a, CUDA_R_16BF); lay(s.a, &b, CUDA_R_16BF); lay(s.c, &c, s.f32 ? CUDA_R_32F : CUDA_R_16BF);
  }
  ~Plan() { cublasLtMatmulDescDestroy(op); for (auto l : {a, b, c}) cublasLtMatrixLayoutDestroy(l); }
};
static cublasLtHandle_t lt;
static std::vector<cublasLtMatmulHeuristicResult_t> candidates(const Plan& p) {
  cublasLtMatmulPreference_t pref; BLAS(cublasLtMatmulPreferenceCreate(&pref));
  auto set = [&](cublasLtMatmulPreferenceAttributes_t k, auto v) { BLAS(cublasLtMatmulPreferenceSetAttribute(pref, k, &v, sizeof v)); };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWork);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  std::vector<cublasLtMatmulHeuristicResult_t> f(kCount); int n = 0;
  BLAS(cublasLtMatmulAlgoGetHeuristic(lt, p.op, p.a, p.b, p.c, p.c, pref, kCount, f.data(), &n));
  cublasLtMatmulPreferenceDestroy(pref); f.resize(n); return f;
}
static std::string text(const cublasLtMatmulAlgo_t& algo) {
  std::string out;
  auto get = [&](const char* n, cublasLtMatmulAlgoConfigAttributes_t k, size_t size) {
    uint64_t v = 0; size_t w = 0; cublasLtMatmulAlgoConfigGetAttribute(&algo, k, &v, size, &w);
    out += std::string(n) + " " + std::to_string(v) + " ";
  };
  get("id", CUBLASLT_ALGO_CONFIG_ID, 4); get("tile", CUBLASLT_ALGO_CONFIG_TILE_ID, 4);
  get("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, 4); get("splitk", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4);
  get("scheme", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4); get("cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2);
  return out;
}
static size_t bytes(Matrix m, int batch, int each) { return (size_t)m.rows * m.cols * batch * each; }
static Shape product(int which, i64 r, std::string& name) {
  struct P { const char* n; i64 out, in; } w[] = {{"qkv", 1536, 512}, {"kv", 1024, 512}, {"square", 512, 512}, {"ffn1", 2048, 512}, {"ffn2", 512, 2048}, {"logits", 16000, 512}};
  const P p = w[which / 4]; const char* k[] = {"forward", "dx", "dx+=", "dw+="};
  name = std::string(p.n) + " " + k[which % 4];
  if (which % 4 == 0) return {{r, p.in}, {p.out, p.in}, {r, p.out}, false, true, false, 0};
  if (which % 4 == 3) return {{r, p.out}, {r, p.in}, {p.out, p.in}, true, false, true, 1};
  return {{r, p.out}, {p.out, p.in}, {r, p.in}, false, false, false, which % 4 == 2 ? 1.f : 0.f};
}
static void rows(int which, int first) {
  // Projection and loss run in chunks: a quarter of the target's rows (128 k / 4, so K may be odd
  // multiples of 32).
  const bool chunk = which / 4 == 5;
  const i64 kMost = chunk ? 6112 : 24448, kLeast = chunk ? 5632 : 22528, kStep = chunk ? 32 : 128;
  std::string name; Shape big = product(which, kMost, name);
  Guarded a, b, c, work; a.make(bytes(big.a, 1, 2)); b.make(bytes(big.b, 1, 2)); c.make(bytes(big.c, 1, 4)); work.make(kWork);
  fill<<<512, 256>>>((__nv_bfloat16*)a.p, a.bytes / 2, 1); fill<<<512, 256>>>((__nv_bfloat16*)b.p, b.bytes / 2, 2);
  CHECK(cudaDeviceSynchronize());
  int ran = 0, refused = 0, total = 0;
  for (i64 base : chunk ? std::vector<i64>{6016, 5984} : std::vector<i64>{23168, 24064, 22912, 23936}) {
    Shape s0 = product(which, base, name); Plan plan0(s0); auto found = candidates(plan0);
    total = (int)found.size();
    for (int i = first; i < total; ++i) {
      for (i64 r = kLeast; r <= kMost; r += kStep) {
        Shape s = product(which, r, name); Plan p(s);
        at = name + " candidate " + std::to_string(i) + " of rows " + std::to_string(base) + " on rows " + std::to_string(r) + ": " + text(found[i].algo);
        cublasLtMatmulHeuristicResult_t res = {};
        if (cublasLtMatmulAlgoCheck(lt, p.op, p.a, p.b, p.c, p.c, &found[i].algo, &res) != CUBLAS_STATUS_SUCCESS || res.workspaceSize > kWork) { ++refused; continue; }
        const size_t used = bytes(s.c, 1, s.f32 ? 4 : 2);
        CHECK(cudaMemset(c.p + used, 0xA5, 256 << 10));
        CHECK(cudaMemset(c.p, 0, used));
        for (int n = 0; n < 3; ++n) {
          if (cublasLtMatmul(lt, p.op, &s.alpha, b.p, p.a, a.p, p.b, &s.beta, c.p, p.c, c.p, p.c, &found[i].algo, work.p, kWork, 0) != CUBLAS_STATUS_SUCCESS) { printf("refused at launch: %s\n", at.c_str()); break; }
        }
        CHECK(cudaDeviceSynchronize());
        ++ran;
        if (broken(c.p, used)) printf("WRITES PAST THE OUTPUT: %s\n", at.c_str());
        if (broken(work.p, work.bytes)) { printf("WRITES PAST THE WORKSPACE: %s\n", at.c_str()); CHECK(cudaMemset(work.p + work.bytes, 0xA5, kGuard)); }
      }
    }
  }
  printf("%s: %d candidates, %d runs, %d refused by AlgoCheck\n", name.c_str(), total, ran, refused);
}
static void muon(int first) {
  struct M { i64 r, c; int n; } shapes[3] = {{512, 512, 72}, {512, 2048, 12}, {2048, 512, 12}};
  struct Lane { cudaStream_t s; Guarded x, y, g, q, work; } lane[3];
  for (int l = 0; l < 3; ++l) {
    M m = shapes[l]; Lane& a = lane[l]; i64 side = m.r < m.c ? m.r : m.c;
    CHECK(cudaStreamCreateWithFlags(&a.s, cudaStreamNonBlocking));
    a.x.make((size_t)m.r * m.c * m.n * 2); a.y.make(a.x.bytes); a.g.make((size_t)side * side * m.n * 2); a.q.make(a.g.bytes); a.work.make(kWork);
    fill<<<512, 256>>>((__nv_bfloat16*)a.x.p, a.x.bytes / 2, l);
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = first; i < kCount; ++i) {
    at = "muon candidate " + std::to_string(i);
    for (int round = 0; round < 20; ++round) {
      for (int l = 0; l < 3; ++l) {
        M m = shapes[l]; Lane& a = lane[l]; bool tall = m.r > m.c; i64 side = tall ? m.c : m.r;
        Matrix x{m.r, m.c}, g{side, side};
        Shape s[3] = {{x, x, g, tall, !tall, false, 0, m.n}, {g, g, g, false, false, false, -4.775f, m.n}, {tall ? x : g, tall ? g : x, x, false, false, false, 3.4445f, m.n}};
        s[0].alpha = s[1].alpha = s[2].alpha = 1e-3f;
        char *A[3] = {a.x.p, a.g.p, tall ? a.x.p : a.q.p}, *B[3] = {a.x.p, a.g.p, tall ? a.q.p : a.x.p}, *C[3] = {a.g.p, a.q.p, a.y.p}, *add[3] = {a.g.p, a.g.p, a.x.p};
        static std::vector<cublasLtMatmulHeuristicResult_t> found[3][3];
        for (int k = 0; k < 3; ++k) {
          Plan p(s[k]); if (found[l][k].empty()) found[l][k] = candidates(p);
          auto& f = found[l][k][i % found[l][k].size()];
          if (round == 0) at += " | " + text(f.algo);
          cublasLtMatmul(lt, p.op, &s[k].alpha, B[k], p.a, A[k], p.b, &s[k].beta, add[k], p.c, C[k], p.c, &f.algo, a.work.p, kWork, a.s);
        }
      }
    }
    CHECK(cudaDeviceSynchronize());
    for (auto& a : lane)
      for (Guarded* b : {&a.x, &a.y, &a.g, &a.q, &a.work})
        if (broken(b->p, b->bytes)) { printf("WRITES PAST A BUFFER: %s\n", at.c_str()); CHECK(cudaMemset(b->p + b->bytes, 0xA5, kGuard)); }
  }
  printf("muon: %d candidates on three streams\n", kCount);
}
int main(int n, char** v) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  BLAS(cublasLtCreate(&lt)); CHECK(cudaMalloc(&bad, 4));
  if (n < 4) return 2;
  printf("cublasLt %zu\n", cublasLtGetVersion());
  if (!strcmp(v[1], "muon")) muon(atoi(v[3])); else rows(atoi(v[2]), atoi(v[3]));
}
