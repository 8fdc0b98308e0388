#include "ops/cpu/library_weight.h"

#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace reigen::cpu {
namespace {

using Type = dnnl::memory::data_type;
using Plain = dnnl::memory::format_tag;

const dnnl::engine& library_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& library_stream() {
  thread_local dnnl::stream stream(library_engine());
  return stream;
}

// More rows at once gain nothing. Code is compiled for each shape (0.1 ms, 60 KB), and this bounds
// their number.
constexpr int64_t kMostRows = 128;

struct ProductTypes {
  Type x, weight, y;
  int64_t x_size, y_size;  // bytes of an element
};
ProductTypes types_of(ProductType type) {
  if (type == ProductType::kInt8) return {Type::u8, Type::s8, Type::s32, 1, 4};
  return {Type::f32, Type::f32, Type::f32, 4, 4};
}

dnnl::memory::desc plain(Type type, int64_t rows, int64_t cols) {
  return {{rows, cols}, type, Plain::ab};
}

// Kernels for weights in a layout of their own are called brg:...
bool is_fast(const dnnl::matmul::primitive_desc& product) {
  return std::strncmp(product.impl_info_str(), "brg:", 4) == 0;
}

// The products with weights of one layout, by rows and threads: oneDNN divides a product among the
// threads when it compiles it, and chooses a layout by their number. Elements of a map stay where
// they are.
struct Products {
  dnnl::memory::desc layout;
  std::mutex mutex;
  std::map<std::pair<int64_t, int>, dnnl::matmul> compiled;
};

Products& products_of(const dnnl::memory::desc& layout) {
  static std::mutex mutex;
  static std::list<Products> all;
  const std::lock_guard lock(mutex);
  for (Products& one : all) {
    if (one.layout == layout) return one;
  }
  Products& one = all.emplace_back();
  one.layout = layout;
  return one;
}

class PackedLibraryWeight : public LibraryWeight {
 public:
  PackedLibraryWeight(ProductType type, const void* values, int64_t out, int64_t in,
                      const dnnl::memory::desc& layout)
      : type_(type),
        out_(out),
        in_(in),
        weight_(layout, library_engine()),
        products_(products_of(layout)) {
    // The transpose of [out, in], without moving anything.
    const dnnl::memory::desc given({in, out}, types_of(type).weight, Plain::ba);
    dnnl::memory from(given, library_engine(), const_cast<void*>(values));
    dnnl::reorder(from, weight_).execute(library_stream(), from, weight_);
    library_stream().wait();
  }

  void multiply(const void* x, int64_t rows, void* y) const override {
    const ProductTypes types = types_of(type_);
    auto* from = static_cast<char*>(const_cast<void*>(x));
    auto* into = static_cast<char*>(y);
    try {
      for (int64_t first = 0; first < rows; first += kMostRows) {
        const int64_t count = std::min(kMostRows, rows - first);
        const dnnl::memory some_x(plain(types.x, count, in_), library_engine(), from);
        const dnnl::memory some_y(plain(types.y, count, out_), library_engine(), into);
        product_of(count).execute(
            library_stream(),
            {{DNNL_ARG_SRC, some_x}, {DNNL_ARG_WEIGHTS, weight_}, {DNNL_ARG_DST, some_y}});
        from += count * in_ * types.x_size;
        into += count * out_ * types.y_size;
      }
      library_stream().wait();
    } catch (const dnnl::error& e) {
      throw DeviceError(format("oneDNN could not multiply [{}, {}] by [{}, {}] (status {})", rows,
                               in_, in_, out_, static_cast<int>(e.status)));
    }
  }

 private:
  const dnnl::matmul& product_of(int64_t rows) const {
    const std::pair key(rows, omp_get_max_threads());
    const std::lock_guard lock(products_.mutex);
    const auto found = products_.compiled.find(key);
    if (found != products_.compiled.end()) return found->second;
    const ProductTypes types = types_of(type_);
    const dnnl::matmul::primitive_desc product(
        {plain(types.x, rows, in_), weight_.get_desc(), plain(types.y, rows, out_)},
        library_engine());
    return products_.compiled.emplace(key, dnnl::matmul(product)).first->second;
  }

  ProductType type_;
  int64_t out_;
  int64_t in_;
  dnnl::memory weight_;
  Products& products_;
};

}  // namespace

std::unique_ptr<LibraryWeight> LibraryWeight::pack(ProductType type, const void* values,
                                                   int64_t out, int64_t in) {
  const ProductTypes types = types_of(type);
  try {
    const dnnl::memory::desc any({in, out}, types.weight, Plain::any);
    const dnnl::matmul::primitive_desc product(
        {plain(types.x, kMostRows, in), any, plain(types.y, kMostRows, out)}, library_engine());
    if (!is_fast(product)) return nullptr;
    return std::make_unique<PackedLibraryWeight>(type, values, out, in, product.weights_desc());
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented) return nullptr;
    throw DeviceError(format("oneDNN could not convert a weight [{}, {}] (status {})", out, in,
                             static_cast<int>(e.status)));
  }
}

namespace {

// Null without one.
const char* limit_of_user() {
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  return limit != nullptr ? limit : std::getenv("DNNL_MAX_CPU_ISA");
}

}  // namespace

bool may_use_avx512_bf16() {
#if defined(__x86_64__)
  const auto instructions = dnnl::get_effective_cpu_isa();
  const auto bf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(instructions) & bf16) == bf16;
#else
  return false;
#endif
}

bool may_use_amx() {
  const char* limit = limit_of_user();
  return may_use_avx512_bf16() && (limit == nullptr || std::strstr(limit, "AMX") != nullptr);
}

void avoid_broken_instructions() {
#if defined(__x86_64__)
  // The limit is set only where it is the best that the processor has beside AMX: elsewhere it
  // would take away other instructions. A limit that the user gave has precedence.
  if (limit_of_user() != nullptr || !__builtin_cpu_supports("avx512bf16")) return;
  dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
#endif
}

void keep_no_products() {
  // By default oneDNN stores the last 1,024 products beside those of `product_of`: 60 KB each.
  dnnl_set_primitive_cache_capacity(0);
}

}  // namespace reigen::cpu
