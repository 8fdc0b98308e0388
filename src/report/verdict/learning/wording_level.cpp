// The sentences about the level of a loss: why a run is of no use, and the likely reason.
#include "base/format.h"
#include "report/verdict/learning/advice.h"
#include "report/verdict/learning/wording.h"

namespace reigen {

std::string level_text(const LossLevel& level) {
  std::string text;
  if (level.fault == LossLevel::Fault::kWorseThanGuessing) {
    text = format("the best validation loss is {:.3f}; guessing evenly among all pieces has {:.3f}",
                  level.valid, level.guessing);
  } else if (level.fault == LossLevel::Fault::kFrequenciesOnly) {
    text = format(
        "the best validation loss is {:.3f} and no longer falls; a model that knows only "
        "how often each piece occurs has about {:.3f}",
        level.valid, level.frequencies);
  } else if (level.fault == LossLevel::Fault::kHardlyLearns ||
             (level.fault == LossLevel::Fault::kUnlikeValidation && !level.unlike)) {
    text = format("the best validation loss is {:.3f}", level.valid);
    if (level.frequencies > 0) {
      text += format("; a model that knows only how often each piece occurs has about {:.3f}",
                     level.frequencies);
    }
    if (level.guessing > 0) {
      text += format("; guessing evenly among all pieces has {:.3f}", level.guessing);
    }
  } else if (level.fault == LossLevel::Fault::kUnusedSources) {
    text = format(
        "validation loss has levelled off at {:.3f}, and translations do not depend on what they "
        "translate: at step {} the loss of validation pairs was {:.3f} with their own sources and "
        "{:.3f} with those of other pairs",
        level.valid, step_number(level.sources.step), level.sources.own, level.sources.rotated);
  } else if (level.fault == LossLevel::Fault::kUselessBleu) {
    text = format(
        "validation loss fell to {:.3f}, but the best BLEU is {:.2f}: the model predicts "
        "the next piece and yet its translations are unlike the references, so look at "
        "the translations in the report (training pairs that are no translations of each other, "
        "segmentation, letter case, language of the references, a length limit)",
        level.valid, level.bleu);
  }
  if (level.unlike) {
    append_clause(
        text,
        format("validation text is unlike training text (domain, language, direction or "
               "preparation): in the first epoch, in which training text is new to the model as "
               "well, training loss was {:.3f} and validation loss {:.3f}",
               level.unlike_train, level.unlike_valid));
  }
  return text;
}

std::string useless_reason(const Trained& t) {
  if (t.level.unlike) return "";
  if (t.level.train < (1 - 2 * kUnlikeGap) * t.level.valid) {
    return format(
        "training loss was {:.3f} then, so the likely reason is validation text of a "
        "different kind (domain, language, direction, preparation)",
        t.level.train);
  }
  if (t.level.fault == LossLevel::Fault::kHardlyLearns && t.level.rate_too_low()) {
    return format(
        "the likely reason is a learning rate that is too low: the rates of all steps sum to "
        "{:.2g}, about the most that any weight can have moved; mean rate now {:.2g}",
        t.level.travel, t.level.rate);
  }
  if (t.level.decayed_away()) {
    return format(
        "the likely reason is optimizer.weight-decay {:.2g}, which pulls all weights towards 0",
        t.level.weight_decay);
  }
  if (t.level.fault == LossLevel::Fault::kUnusedSources) {
    return format(
        "likely reasons: training pairs that are no translations of each other, a learning rate "
        "(mean {:.2g}) that is too high, or a model that is too small",
        t.level.rate);
  }
  if (t.level.clipped()) {
    return format(
        "the likely reason is a learning rate that is too high: its mean was {:.2g}, and "
        "gradients had a mean norm of {:.2g}, above optimizer.clip {:.2g}",
        t.level.rate, t.level.norm, t.level.clip);
  }
  return format(
      "likely reasons, the likeliest first: too few steps so far, a learning rate (mean {:.2g}) "
      "that is too high or far too low, or pairs that are no translations of each other",
      t.level.rate);
}

}  // namespace reigen
