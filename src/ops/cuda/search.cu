// A warp advances one sentence: lane b holds the best remaining candidate of row b, and the best of
// these is taken 2 * beam times, which is the order of merge_candidates.h.
#include "ops/cuda/search.h"

#include <algorithm>

#include "ops/cuda/backend.h"
#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kSlotsOfBlock = 4;  // one warp each

__global__ void set_up_kernel(const SearchMemory s, int rows, int slots, int source_rows) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < source_rows) s.source_picks[i] = static_cast<uint32_t>(i);
  if (i < rows) {
    s.tokens[i] = s.eos;
    s.places[i] = 0;
    s.begin[i] = static_cast<uint32_t>(i) * static_cast<uint32_t>(s.length);
    s.count[i] = 0;
    s.source_begin[i] = 0;
    s.source_count[i] = 0;
    s.scores[i] = -INFINITY;
  }
  if (i < slots) s.alive[i] = 0;
}

struct Starts {
  const uint32_t* slot;
  const uint32_t* ticket;
  const uint32_t* first_row;
  const uint32_t* source_first;
  const uint32_t* source_count;
  const uint32_t* limit;
};

// A block of one warp for each sentence. Only its first row is in use.
__global__ void admit_kernel(const SearchMemory s, const Starts starts) {
  const uint32_t i = blockIdx.x;
  const uint32_t slot = starts.slot[i];
  const int lane = static_cast<int>(threadIdx.x);
  const uint32_t first_row = starts.first_row[i];
  if (lane < s.beam) {
    const uint32_t row = slot * static_cast<uint32_t>(s.beam) + static_cast<uint32_t>(lane);
    s.tokens[row] = s.bos;
    s.places[row] = 0;
    s.picks[static_cast<int64_t>(row) * s.length] = first_row;
    s.count[row] = lane == 0 ? 1 : 0;
    s.source_begin[row] = starts.source_first[i];
    s.source_count[row] = lane == 0 ? starts.source_count[i] : 0;
    s.scores[row] = lane == 0 ? 0.0 : -INFINITY;
  }
  if (lane != 0) return;
  s.first_row[slot] = first_row;
  s.source_first[slot] = starts.source_first[i];
  s.source_total[slot] = starts.source_count[i];
  s.limit[slot] = starts.limit[i];
  s.steps[slot] = 0;
  s.ended[slot] = 0;
  s.ticket[slot] = starts.ticket[i];
  s.alive[slot] = 1;
  s.nodes[first_row] = {kNoNode, s.bos};
}

// A block for each sentence that changes its slot.
__global__ void move_kernel(const SearchMemory s, const uint32_t* from_slots,
                            const uint32_t* to_slots) {
  const uint32_t from = from_slots[blockIdx.x];
  const uint32_t to = to_slots[blockIdx.x];
  const auto thread = static_cast<int>(threadIdx.x);
  for (int b = 0; b < s.beam; ++b) {
    const int64_t a = static_cast<int64_t>(from) * s.beam + b;
    const int64_t z = static_cast<int64_t>(to) * s.beam + b;
    const auto count = static_cast<int>(s.count[a]);
    for (int t = thread; t < count; t += static_cast<int>(blockDim.x)) {
      s.picks[z * s.length + t] = s.picks[a * s.length + t];
    }
    __syncthreads();
    if (thread != 0) continue;
    s.tokens[z] = s.tokens[a];
    s.places[z] = s.places[a];
    s.count[z] = s.count[a];
    s.source_begin[z] = s.source_begin[a];
    s.source_count[z] = s.source_count[a];
    s.scores[z] = s.scores[a];
    s.count[a] = 0;
    s.source_count[a] = 0;
  }
  if (thread != 0) return;
  for (uint32_t* list : {s.first_row, s.source_first, s.source_total, s.limit, s.steps, s.ended,
                         s.ticket, s.alive}) {
    list[to] = list[from];
  }
  s.alive[from] = 0;
}

// The best remaining candidate of a row.
struct Head {
  double total;
  uint32_t token;
};

__device__ inline Head head_of(const TopLogit* tops, int rank, int ranks, double score,
                               float log_sum) {
  if (rank >= ranks) return {-INFINITY, 0};
  const double total = score + (static_cast<double>(tops[rank].logit) - log_sum);
  if (!isfinite(total)) return {-INFINITY, 0};
  return {total, tops[rank].token};
}

// The lane with the best candidate, the lowest among equals; its total in all lanes.
__device__ inline int best_lane(double& total) {
  int who = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(0xFFFFFFFFu, total, step);
    const int lane = __shfl_xor_sync(0xFFFFFFFFu, who, step);
    if (other > total || (other == total && lane < who)) {
      total = other;
      who = lane;
    }
  }
  return who;
}

// Row b gets the ancestors of row `parent` of lane b, for all b below `rows`. The columns of the
// lists are independent of each other.
template <int kBeam>
__device__ void follow_parents(const SearchMemory& s, int slot, int rows, int parent, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (__ballot_sync(0xFFFFFFFFu, lane < rows && parent != lane) == 0) return;
  uint32_t* picks = s.picks + static_cast<int64_t>(slot) * s.beam * s.length;
  for (int first = 0; first < columns; first += 32) {
    const int column = first + lane;
    uint32_t kept[kBeam];
#pragma unroll
    for (int b = 0; b < kBeam; ++b) {
      const int from = __shfl_sync(0xFFFFFFFFu, parent, b);
      kept[b] = 0;
      if (b < rows && column < columns) {
        kept[b] = picks[static_cast<int64_t>(from) * s.length + column];
      }
    }
#pragma unroll
    for (int b = 0; b < kBeam; ++b) {
      if (b < rows && column < columns) {
        picks[static_cast<int64_t>(b) * s.length + column] = kept[b];
      }
    }
  }
}

struct Candidates {
  const TopLogit* tops;  // [rows, ranks]
  const float* log_sums;
  int ranks;
  int slots;
  uint32_t step;  // number, from 1
};

template <int kBeam>
__global__ __launch_bounds__(32 * kSlotsOfBlock) void advance_kernel(const SearchMemory s,
                                                                     const Candidates c) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int slot =
      static_cast<int>(blockIdx.x) * kSlotsOfBlock + static_cast<int>(threadIdx.x) / 32;
  if (slot >= c.slots || s.alive[slot] == 0) return;
  const int row = slot * s.beam + min(lane, s.beam - 1);
  const double score = lane < s.beam ? s.scores[row] : -INFINITY;
  const float log_sum = c.log_sums[row];
  const TopLogit* own_tops = c.tops + static_cast<int64_t>(row) * c.ranks;
  const uint32_t length = s.steps[slot] + 1;  // of a candidate, end included
  const uint32_t first_row = s.first_row[slot];
  const uint32_t own_rows = first_row + (length - 1) * static_cast<uint32_t>(s.beam);
  const uint32_t limit = s.limit[slot];
  const uint32_t ticket = s.ticket[slot];
  SearchEnd* ends = s.ends + static_cast<int64_t>(ticket) * s.beam;
  auto ended = static_cast<int>(s.ended[slot]);

  int rank = 0;
  Head head = head_of(own_tops, rank, c.ranks, score, log_sum);
  bool finite = false;
  int rows = 0;    // of the next step
  int parent = 0;  // of row `lane` of the next step, with the next two
  uint32_t token = 0;
  double total = -INFINITY;
  for (int taken = 0; taken < 2 * s.beam; ++taken) {
    double best = head.total;
    const int who = best_lane(best);
    if (best == -INFINITY) break;
    finite = true;
    const uint32_t candidate = __shfl_sync(0xFFFFFFFFu, head.token, who);
    if (lane == who) head = head_of(own_tops, ++rank, c.ranks, score, log_sum);
    if (candidate == s.eos) {
      if (lane == 0) {
        ends[ended] = {best, own_rows + static_cast<uint32_t>(who), kNoLast, length, 0};
      }
      if (++ended == s.beam) break;
      continue;
    }
    if (lane == rows) {
      parent = who;
      token = candidate;
      total = best;
    }
    if (++rows == s.beam) break;
  }

  const bool inside = lane < s.beam;
  if (ended < s.beam && rows > 0 && length < limit) {  // continues
    follow_parents<kBeam>(s, slot, rows, parent, static_cast<int>(length));
    const bool live = lane < rows;
    const uint32_t own =
        first_row + length * static_cast<uint32_t>(s.beam) + static_cast<uint32_t>(lane);
    if (inside) {
      s.tokens[row] = live ? token : s.eos;
      s.places[row] = live ? length : 0;
      s.scores[row] = total;
      s.count[row] = live ? length + 1 : 0;
      s.source_count[row] = live ? s.source_total[slot] : 0;
    }
    if (live) {
      s.picks[static_cast<int64_t>(row) * s.length + length] = own;
      s.nodes[own] = {own_rows + static_cast<uint32_t>(parent), token};
    }
    if (lane != 0) return;
    s.steps[slot] = length;
    s.ended[slot] = static_cast<uint32_t>(ended);
    return;
  }
  if (ended == 0) {
    if (lane < rows) {
      ends[lane] = {total, own_rows + static_cast<uint32_t>(parent), token, length, 0};
    }
    ended = rows;
  }
  if (inside) {
    s.count[row] = 0;
    s.source_count[row] = 0;
  }
  if (lane != 0) return;
  s.alive[slot] = 0;
  s.finishes[ticket] = {c.step, finite ? SearchState::kDone : SearchState::kNotFinite,
                        static_cast<uint32_t>(ended)};
}

}  // namespace

CudaSearch::CudaSearch(const Context& context, BatchSlots& staging, const GpuSearchShape& shape)
    : context_(context), staging_(staging), shape_(shape) {
  require(shape.beam >= 1 && shape.beam <= kMostGpuBeam, "a beam of 1 to 32");
  const auto rows = static_cast<size_t>(shape.slots * shape.beam);
  const auto count = static_cast<size_t>(shape.slots);
  state_ = DeviceMemory(place_lists(nullptr), "hypotheses of a beam search");
  place_lists(state_.as<std::byte>());
  const size_t finish_bytes = Slot::room(count * sizeof(SearchFinish));
  const size_t end_bytes = Slot::room(rows * sizeof(SearchEnd));
  host_ = PinnedMemory(
      finish_bytes + end_bytes + static_cast<size_t>(shape.target_rows) * sizeof(SearchNode),
      "results of a beam search");
  at_.finishes = host_.as<SearchFinish>();
  at_.ends = reinterpret_cast<SearchEnd*>(host_.as<std::byte>() + finish_bytes);
  at_.nodes = reinterpret_cast<SearchNode*>(host_.as<std::byte>() + finish_bytes + end_bytes);
  at_.beam = static_cast<int>(shape.beam);
  at_.length = static_cast<int>(shape.length);
  at_.bos = shape.bos;
  at_.eos = shape.eos;
  const auto most = std::max({static_cast<int64_t>(rows), shape.slots, shape.source_rows});
  set_up_kernel<<<static_cast<unsigned>((most + 255) / 256), 256, 0, context_.stream()>>>(
      at_, static_cast<int>(rows), static_cast<int>(shape.slots),
      static_cast<int>(shape.source_rows));
  check_launch("set_up_search");
}

size_t CudaSearch::place_lists(std::byte* memory) {
  const auto rows = static_cast<size_t>(shape_.slots * shape_.beam);
  size_t used = 0;
  auto take = [&]<class T>(T*& list, size_t elements) {
    list = reinterpret_cast<T*>(memory + used);
    used += Slot::room(elements * sizeof(T));
  };
  for (uint32_t** list :
       {&at_.tokens, &at_.places, &at_.begin, &at_.count, &at_.source_begin, &at_.source_count}) {
    take(*list, rows);
  }
  take(at_.picks, rows * static_cast<size_t>(shape_.length));
  take(at_.scores, rows);
  for (uint32_t** list : {&at_.first_row, &at_.source_first, &at_.source_total, &at_.limit,
                          &at_.steps, &at_.ended, &at_.ticket, &at_.alive}) {
    take(*list, static_cast<size_t>(shape_.slots));
  }
  take(at_.source_picks, static_cast<size_t>(shape_.source_rows));
  return used;
}

// Kernels may still write results to memory that is freed here.
CudaSearch::~CudaSearch() { cudaStreamSynchronize(context_.stream()); }

void CudaSearch::admit(std::span<const SearchStart> starts) {
  if (starts.empty()) return;
  std::vector<uint32_t> lists[6];
  for (const SearchStart& start : starts) {
    at_.finishes[start.ticket] = {0, SearchState::kRunning, 0};
    const uint32_t values[6] = {start.slot,         start.ticket,       start.first_row,
                                start.source_first, start.source_count, start.limit};
    for (int i = 0; i < 6; ++i) lists[i].push_back(values[i]);
  }
  const std::vector<std::span<const uint32_t>> spans(std::begin(lists), std::end(lists));
  const auto at = staging_.stage(spans);
  admit_kernel<<<static_cast<unsigned>(starts.size()), 32, 0, context_.stream()>>>(
      at_, {at[0], at[1], at[2], at[3], at[4], at[5]});
  check_launch("admit_sentences");
}

void CudaSearch::move(std::span<const SearchMove> moves) {
  if (moves.empty()) return;
  std::vector<uint32_t> lists[2];
  for (const SearchMove& move : moves) {
    lists[0].push_back(move.from);
    lists[1].push_back(move.to);
  }
  const std::vector<std::span<const uint32_t>> spans(std::begin(lists), std::end(lists));
  const auto at = staging_.stage(spans);
  move_kernel<<<static_cast<unsigned>(moves.size()), 128, 0, context_.stream()>>>(at_, at[0],
                                                                                  at[1]);
  check_launch("move_sentences");
}

SearchRows CudaSearch::rows(int64_t slots) const {
  const auto n = static_cast<size_t>(slots * shape_.beam);
  const size_t picks = n * static_cast<size_t>(shape_.length);
  return {{at_.tokens, n},
          {at_.places, n},
          {{at_.picks, picks}, {at_.begin, n}, {at_.count, n}},
          {{at_.source_picks, static_cast<size_t>(shape_.source_rows)},
           {at_.source_begin, n},
           {at_.source_count, n},
           static_cast<int>(shape_.beam)}};
}

void CudaSearch::advance(Tensor logits) {
  const int64_t ranks = std::min(2 * shape_.beam, logits.cols);
  const size_t candidates = static_cast<size_t>(logits.rows * ranks) * sizeof(TopLogit);
  const size_t bytes = candidates + static_cast<size_t>(logits.rows) * sizeof(float);
  if (tops_.size() < bytes) {
    context_.queue().wait();
    tops_ = DeviceMemory();
    tops_ = DeviceMemory(bytes, "candidates of a beam step");
  }
  auto* log_sums = reinterpret_cast<float*>(tops_.as<std::byte>() + candidates);
  top_rows(context_, logits, ranks, tops_.as<TopLogit>(), log_sums);
  const auto slots = static_cast<int>(logits.rows / shape_.beam);
  const auto blocks = static_cast<unsigned>((slots + kSlotsOfBlock - 1) / kSlotsOfBlock);
  const auto kernel = shape_.beam <= 4    ? advance_kernel<4>
                      : shape_.beam <= 8  ? advance_kernel<8>
                      : shape_.beam <= 16 ? advance_kernel<16>
                                          : advance_kernel<32>;
  const Candidates found{tops_.as<TopLogit>(), log_sums, static_cast<int>(ranks), slots,
                         static_cast<uint32_t>(advances_ + 1)};
  kernel<<<blocks, 32 * kSlotsOfBlock, 0, context_.stream()>>>(at_, found);
  check_launch("advance_sentences");
  advanced_[advances_++ % kEvents].record(context_.stream());
}

void CudaSearch::wait(int64_t ahead) {
  if (advances_ <= ahead) return;
  completed_ = advances_ - ahead;
  advanced_[(completed_ - 1) % kEvents].wait();
}

SearchResult CudaSearch::result(uint32_t ticket) const {
  const SearchFinish& finish = at_.finishes[ticket];
  // A running step may write at this moment.
  const uint32_t step = *static_cast<const volatile uint32_t*>(&finish.step);
  if (step == 0 || step > completed_) return {SearchState::kRunning, 0};
  return {finish.state, finish.ended};
}

std::span<const SearchEnd> CudaSearch::ends(uint32_t ticket) const {
  return {at_.ends + static_cast<int64_t>(ticket) * shape_.beam, at_.finishes[ticket].ended};
}

std::unique_ptr<GpuSearch> CudaBackend::search(const GpuSearchShape& shape) {
  return std::make_unique<CudaSearch>(context_, slots_, shape);
}

}  // namespace reigen::cuda
