// Iteration over hypotheses and their references, sentence by sentence, for all metrics.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reigen {

using Lines = std::vector<std::string>;

// Calls `visit` with each hypothesis and its references, in order. `references` holds one or more
// whole sets; DataError when there is nothing to score or a set is not as long as the hypotheses.
// An empty line is an empty sentence, also among references, as in sacreBLEU since 2.2.
void for_each_sentence(
    const Lines& hypotheses, const std::vector<Lines>& references,
    const std::function<void(std::string_view, std::span<const std::string_view>)>& visit);

}  // namespace reigen
