#include "report/verdict/learning/advice.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/printable.h"
#include "optim/schedule.h"
#include "report/verdict/learning/wording.h"

namespace reigen {
namespace {

std::string run_word(const std::string& run) { return run.empty() ? "RUN" : shell_word(run); }

std::string resume_command(const Trained& t, const std::string& more) {
  return format("`reigen train --run {}{}{}`", run_word(t.run), more.empty() ? "" : " ", more);
}

// A new run with the options of this one but for `changes`.
std::string new_run_command(const std::string& run, const std::string& suffix,
                            const std::string& changes) {
  std::string path = run.empty() ? "RUN" : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return format("`reigen train --config {} --run {} {}`", shell_word(path + "/config.yaml"),
                shell_word(path + "-" + suffix), changes);
}

// "0.05", with two digits.
std::string short_number(double value) { return format("{:.2g}", value); }

// A divisor below 1 raises the rate.
std::string other_rate_command(const Trained& t, double divisor) {
  std::string change = "--schedule.rate R";
  if (t.schedule && t.schedule->kind == ScheduleKind::kNoam) {
    change = "--schedule.factor " + short_number(t.schedule->factor / divisor);
  } else if (t.schedule && t.schedule->kind != ScheduleKind::kPiecewise) {
    change = "--schedule.rate " + short_number(t.schedule->rate / divisor);
  } else if (t.schedule) {
    std::string values;
    for (const double value : t.schedule->values) {
      values += (values.empty() ? "" : ",") + short_number(value / divisor);
    }
    change = "--schedule.values " + values;
  }
  return new_run_command(t.run, divisor < 1 ? "higher-rate" : "lower-rate", change);
}

std::string longer_command(const Trained& t) {
  const double steps = std::round(1.5 * t.plan.step);
  std::string changes = format("--max-steps {}", steps);
  const bool decays = t.schedule && (t.schedule->kind == ScheduleKind::kCosine ||
                                     t.schedule->kind == ScheduleKind::kPolynomial ||
                                     t.schedule->kind == ScheduleKind::kExponential);
  if (decays) {
    // A decay that ended the run before it had learnt anything gets all of its steps.
    const double planned = 1.5 * static_cast<double>(t.schedule->decay_steps);
    changes +=
        format(" --schedule.decay-steps {}",
               std::round(t.level.useless() ? std::max(planned, 1.5 * t.plan.step) : planned));
  }
  return new_run_command(t.run, "longer", changes);
}

std::string shorter_warmup_advice(const Trained& t) {
  const double warmup = std::max(1.0, std::round(t.plan.last / 10));
  return format(
      "the warm-up of {} steps is longer than the planned {}: {} starts anew with a warm-up of a "
      "tenth of the run",
      step_number(t.warmup_end), step_number(t.plan.last),
      new_run_command(t.run, "shorter-warmup", format("--schedule.warmup-steps {:.0f}", warmup)));
}

const char* divided_text(double divisor) { return divisor == 10 ? "a tenth" : "a third"; }

}  // namespace

std::string step_number(double step) { return with_commas(static_cast<uint64_t>(step)); }

std::string expected_text(const Trained& t, size_t horizon) {
  std::string text = text_of(t.gains[horizon]);
  if (horizon < t.bleu_gains.size()) text += " and " + text_of_bleu(t.bleu_gains[horizon]);
  return text;
}

std::string train_on_advice(const Trained& t) {
  const bool planned = t.plan.last > t.plan.step || t.plan.last_epoch > t.plan.epochs;
  std::string advice;
  if (planned && t.plan.last > 0) {
    advice = format("{} trains on to the planned step {}", resume_command(t, ""),
                    step_number(t.plan.last));
    if (t.to_end) advice += format(": expect {}", text_of(*t.to_end));
  } else if (planned) {
    advice = format("{} trains on to the planned end", resume_command(t, ""));
  } else {
    const double more = 1.5 * std::max(t.plan.step, 2.0);
    advice = resume_command(t, format("--max-steps {:.0f}", more)) + " trains on";
    if (!t.gains.empty()) advice += format(": expect {}", expected_text(t, 1));
  }
  if (t.of_decay && t.of_decay->low > 0 && t.decay_steps >= 1) {
    append_clause(advice, format("or {} lowers the learning rate to 0 over {} and ends: expect {}",
                                 resume_command(t, format("--decay-now {:.0f}", t.decay_steps)),
                                 counted(static_cast<uint64_t>(t.decay_steps), "step"),
                                 text_of(*t.of_decay)));
  }
  if (t.plan.last > 0 && t.warmup_end >= t.plan.last) {
    append_clause(advice, shorter_warmup_advice(t));
  }
  return advice;
}

std::string longer_run_advice(const Trained& t) {
  std::string advice = longer_command(t) + " trains a longer run from the start";
  if (t.of_longer) advice += format(": expect {}", text_of(*t.of_longer));
  return advice;
}

std::string lower_rate_advice(const Trained& t, double divisor) {
  return format("{} starts anew with {} of the learning rate", other_rate_command(t, divisor),
                divided_text(divisor));
}

std::string wider_range_advice(const Trained& t) {
  return new_run_command(t.run, "bf16", "--precision bf16") +
         " starts anew in bf16, which has the range of fp32";
}

std::string less_dropout_advice(const Overfitting& o) {
  return format(
      "{} starts anew with half of the dropout",
      new_run_command(o.run, "less-dropout", format("--dropout {}", short_number(o.less_dropout))));
}

std::string useless_advice(const Trained& t) {
  const bool data = t.level.unlike || t.level.train < (1 - 2 * kUnlikeGap) * t.level.valid;
  if (data) {
    return "prepare the dataset again with validation pairs of the kind that the model is for "
           "(`reigen prepare --valid`), and with training pairs of that kind";
  }
  if (t.level.fault == LossLevel::Fault::kHardlyLearns && t.level.rate_too_low()) {
    return format(
        "{} starts anew with ten times the learning rate; the loss has to fall below {:.3f} within "
        "as many steps",
        other_rate_command(t, 0.1), t.level.valid);
  }
  if (t.level.decayed_away()) {
    return new_run_command(t.run, "less-decay", "--optimizer.weight-decay 0.01") +
           " starts anew with the usual weight decay";
  }
  if (t.level.fault == LossLevel::Fault::kUnusedSources) {
    return format(
        "compare some lines of both training files side by side; if they are translations of each "
        "other, {} starts anew with a tenth of the learning rate",
        other_rate_command(t, 10));
  }
  const std::string anew = other_rate_command(t, 10) +
                           " starts anew with a tenth of the learning rate; the loss has to fall "
                           "below the figure above within as many steps";
  if (t.level.fault == LossLevel::Fault::kWorseThanGuessing || t.level.clipped()) return anew;
  return format("{} trains for as many steps again; if the loss still stands there, {}",
                resume_command(t, format("--max-steps {:.0f}", 2 * std::max(t.plan.step, 1.0))),
                anew);
}

std::string best_checkpoint_advice(const std::string& run, const LossTrend& trend) {
  return format(
      "use the checkpoint of step {}, `reigen translate --model {}`, whose validation "
      "loss is lower by {:.3f}",
      step_number(trend.best_step), run_word(run.empty() ? run : run + "/best-loss"),
      trend.last - trend.best);
}

}  // namespace reigen
