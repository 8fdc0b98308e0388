// The two ends of the model that know pieces: embedding, and projection with its loss.
#include "checker.h"
#include "ops/cuda/embed.h"
#include "ops/cuda/projection_loss.h"

namespace reigen::bench {

void Checker::embeddings() {
  const int64_t pieces = 50, width = 520, tokens = 700;
  std::vector<uint32_t> ids, places;
  for (int64_t t = 0; t < tokens; ++t) {
    ids.push_back(random_() % 3 == 0 ? 7 : static_cast<uint32_t>(random_() % pieces));
    places.push_back(static_cast<uint32_t>(t % 90));
  }
  ids.back() = cuda::kNoToken;
  GpuArray<uint32_t> gids(ids), gplaces(places);
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (float rate : {0.0F, 0.1F}) {
      const std::string which = std::string(name_of(dtype)) + (rate > 0 ? " dropout" : "");
      Matrix table = normal(pieces, width), positions = normal(90, width);
      Matrix dout = normal(tokens, width), before = normal(pieces, width);
      GpuMatrix gtable(table, dtype), gpositions(positions, DType::kF32), gdout(dout, dtype);
      GpuMatrix out(tokens, width, dtype), dtable(before, DType::kF32);
      Drop drop = make_drop(tokens, rate);
      cuda::embed_forward(context_, {gids.get(), gplaces.get(), 22.6F, drop.device},
                          gtable.tensor(), gpositions.tensor(), out.tensor());
      const auto schedule = cuda::schedule_embed_backward(ids);
      GpuArray<uint32_t> order(schedule.order);
      GpuArray<cuda::EmbedSegment> segments(schedule.segments);
      GpuArray<cuda::EmbedSum> sums(schedule.sums);
      const cuda::EmbedPlan plan{order.get(),
                                 segments.get(),
                                 sums.get(),
                                 static_cast<uint32_t>(segments.size()),
                                 static_cast<uint32_t>(sums.size()),
                                 schedule.slots};
      cuda::embed_backward(context_, plan, gdout.tensor(), 22.6F, drop.device, dtable.tensor());
      finish();
      const Dropout hd = on_host(drop);
      const double scale = static_cast<double>(22.6F);
      compare("embed forward", which, out, host::embed(ids, places, scale, table, positions, hd),
              rounding(dtype));
      Matrix wanted = host::embed_gradient(ids, scale, dout, pieces, hd);
      for (size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] += before.values[i];
      compare("embed backward", which, dtable, wanted, 1e-5);
    }
  }
}

void Checker::loss(DType dtype, int64_t tokens, int64_t pieces, int64_t width, int64_t chunk,
                   float smoothing) {
  const std::string which = std::string(name_of(dtype)) + " " + std::to_string(pieces) +
                            " pieces, chunks of " + std::to_string(chunk);
  Matrix hidden = normal(tokens, width), table = normal(pieces, width, 0.2);
  std::vector<uint32_t> targets;
  for (int64_t t = 0; t < tokens; ++t) {
    targets.push_back(static_cast<uint32_t>(random_() % static_cast<uint64_t>(pieces)));
  }
  if (tokens > 1) targets.back() = cuda::kNoToken;
  GpuMatrix ghidden(hidden, dtype), gtable(table, dtype);
  GpuArray<uint32_t> gtargets(targets);
  Matrix before = normal(pieces, width, 0.01);
  GpuMatrix logits(chunk, pieces, dtype, (pieces + 7) / 8 * 8);
  GpuMatrix dhidden(tokens, width, dtype), dtable(before, DType::kF32);
  GpuArray<double> sums(std::vector<double>{1, 2});
  GpuMatrix each(tokens, 2, DType::kF32);
  // The scale of the gradient is the settings' times the control's.
  context_.set_step({.per_token = 0.0625});
  cuda::StepControl control;
  control.loss_scale = 4;
  context_.set_control(control);
  cuda::ProjectionLoss op;
  op.hidden = ghidden.tensor();
  op.table = gtable.tensor();
  op.targets = gtargets.get();
  op.smoothing = smoothing;
  op.logits = logits.tensor();
  op.dhidden = dhidden.tensor();
  op.dtable = dtable.tensor();
  op.sums = sums.get();
  op.losses = each.tensor().row(0);
  cuda::projection_loss(context_, op);
  finish();
  auto wanted = host::projection_loss(hidden, table, targets, static_cast<double>(smoothing), 0.25);
  auto got = sums.download();
  add("loss", which + " smoothed", std::abs((got[0] - 1) / wanted.smoothed - 1), rounding(dtype));
  add("loss", which + " nll", std::abs((got[1] - 2) / wanted.nll - 1), rounding(dtype));
  compare("loss", which + " dhidden", dhidden, wanted.dhidden, 3 * rounding(dtype));
  for (size_t i = 0; i < before.values.size(); ++i) wanted.dtable.values[i] += before.values[i];
  compare("loss", which + " dtable", dtable, wanted.dtable, 3 * rounding(dtype));
  op.dhidden = op.dtable = {};
  cuda::projection_loss(context_, op);
  finish();
  got = sums.download();
  add("loss", which + " evaluated", std::abs((got[1] - 2) / wanted.nll - 2) / 2, rounding(dtype));
}

void Checker::losses() {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    loss(dtype, 61, 1003, 64, 61, 0.1F);
    loss(dtype, 61, 1003, 64, 20, 0);
  }
  loss(DType::kBF16, 1, 8000, 128, 1, 0.1F);
  loss(DType::kBF16, 40, 32768, 64, 16, 0.1F);
  loss(DType::kBF16, 9, 50'001, 64, 9, 0.1F);
  loss(DType::kBF16, 5, 70'000, 64, 5, 0.1F);
}

}  // namespace reigen::bench
