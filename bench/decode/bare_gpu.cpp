// The least that any program does before it translates on a GPU: opens CUDA and cuBLASLt, reads a
// file of weights and copies it to the GPU. gpu_lines.py times it beside `reigen translate`.
//
//     bare_gpu FILE
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bare_gpu FILE\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary | std::ios::ate);
  std::vector<char> weights(file ? static_cast<size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(weights.data(), static_cast<std::streamsize>(weights.size()));
  cublasLtHandle_t blas = nullptr;
  void* memory = nullptr;
  const bool done =
      file && cudaSetDevice(0) == cudaSuccess && cublasLtCreate(&blas) == CUBLAS_STATUS_SUCCESS &&
      cudaMalloc(&memory, weights.size()) == cudaSuccess &&
      cudaMemcpy(memory, weights.data(), weights.size(), cudaMemcpyHostToDevice) == cudaSuccess;
  if (!done) {
    std::fprintf(stderr, "bare_gpu: could not read %s or use the GPU\n", argv[1]);
    return 1;
  }
  cublasLtDestroy(blas);
  return 0;
}
