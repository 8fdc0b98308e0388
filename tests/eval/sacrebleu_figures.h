// sacreBLEU's own figures for awkward text, in fixture.json (make_fixture.py wrote it).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json/json.h"

namespace reigen {

inline Json sacrebleu_corpora() {
  return read_json(REIGEN_TESTS "/eval/fixture.json").at("corpora");
}

// Up to rounding.
inline void expect_close(double ours, double theirs) {
  EXPECT_NEAR(ours, theirs, 1e-9 * std::max(1.0, std::abs(theirs)));
}

}  // namespace reigen
