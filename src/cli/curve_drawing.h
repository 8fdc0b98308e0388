// A curve over steps, drawn as lines of text with axes: in Braille dots, or in plain ASCII.
//
// The drawing is exact: a column covers a range of steps, and between turning points a value only
// rises or only falls, so the ends of the range and the turning points in it give its highest and
// lowest value.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reigen {

struct Curve {
  std::function<double(uint64_t)> value;  // not negative, of each step from 1 to `steps`
  uint64_t steps = 1;
  uint64_t peak = 1;                     // the step with the highest value, which is marked
  std::vector<uint64_t> turning_points;  // ascending: steps at which the curve turns or jumps
};

enum class DrawingStyle { kBraille, kAscii };

// Braille where locale and terminal show Unicode.
DrawingStyle usual_drawing_style();

// `width` columns in all, and `height` lines between the axes.
std::string draw_curve(const Curve& curve, DrawingStyle style, size_t width, size_t height);

}  // namespace reigen
