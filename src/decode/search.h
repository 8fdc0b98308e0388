// Shared by the two forms of search: with hypotheses on the host (host_search.cpp), also where
// tokens are drawn, models form an ensemble or rules forbid tokens; or on a GPU
// (device_search.cpp). Both replace sentences that have ended by waiting ones.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "decode/beam_search.h"

namespace reigen {

// The source at a place of a list, with its extras.
SearchSource source_of(const std::vector<std::vector<uint32_t>>& sources,
                       const SourceExtras& extras, size_t place, size_t number);

// Limits of the sentences that are searched at once.
struct SearchRoom {
  int64_t tokens = 0;     // sum of search_cost() of all sentences
  int64_t sentences = 0;  // each with `beam` rows
};

// Hypotheses times source tokens; a very short source counts as four tokens, because its
// hypotheses may be longer.
int64_t search_cost(size_t source_tokens, const DecodeOptions& options);

struct WaitingSource {
  SearchSource source;
  int64_t cost = 0;
  int64_t limit = 0;  // tokens of its translation, end included
};

// The sources of a feed that wait for room.
class WaitingSources {
 public:
  WaitingSources(SearchFeed& feed, const DecodeOptions& options, int64_t model_length)
      : feed_(feed), options_(options), model_length_(model_length) {}

  // Takes sources from the feed until they fill `room`, or there are no more. With `wait`, waits
  // for the first one.
  void gather(const SearchRoom& room, bool wait);

  std::deque<WaitingSource>& list() { return list_; }
  const std::deque<WaitingSource>& list() const { return list_; }
  // The sources that the feed still has, without the list; nothing where that is not known.
  std::optional<SearchRest> rest() const;

 private:
  SearchFeed& feed_;
  const DecodeOptions& options_;
  int64_t model_length_;
  std::deque<WaitingSource> list_;
};

// Reserves caches of the decoder while nothing is searched: for any sentences within `room` and one
// of any length, or for less where fewer will come.
void reserve_caches(IncrementalDecoder& decoder, WaitingSources& waiting, const SearchRoom& room,
                    const DecodeOptions& options);

[[noreturn]] void throw_not_finite();

// The caches, although nothing is searched, have no room for a source: an error of this program.
[[noreturn]] void throw_no_room(size_t source_tokens);

void sort_by_score(std::vector<Hypothesis>& hypotheses);

void host_search(const Decoders& decoders, SearchFeed& feed, SpecialIds special,
                 const DecodeOptions& options, const SearchRoom& room);
void device_search(IncrementalDecoder& decoder, SearchFeed& feed, SpecialIds special,
                   const DecodeOptions& options, const SearchRoom& room);

}  // namespace reigen
