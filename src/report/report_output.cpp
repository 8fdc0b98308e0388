// The outputs of a report: JSON, text for a terminal, and both files.
#include <algorithm>
#include <filesystem>

#include "base/file/files.h"
#include "base/format.h"
#include "report/report.h"
#include "report/report_page.h"

namespace reigen {
namespace {

void write_whole(const std::string& path, const std::string& text) {
  FileWriter writer(path + ".partial");
  writer.write(text);
  writer.close();
  std::filesystem::rename(path + ".partial", path);
}

Json json_of(const Judgement& j) {
  Json late = Json::array();
  for (const LateRank& rank : j.shares.late) {
    late.push_back({{"rank", rank.rank}, {"ratio", rank.ratio}, {"reason", id_of(rank.reason)}});
  }
  Json parts = Json::object();
  for (const CauseShare& part : j.parts) parts[id_of(part.cause)] = part.share;
  parts["compute"] = j.shares.all_compute() / std::max(1e-9, j.shares.total);
  return {{"cause", id_of(j.cause)},
          {"rank", j.rank},
          {"confidence", id_of(j.confidence)},
          {"late_ranks", std::move(late)},
          {"shares", std::move(parts)}};
}

// The bottleneck of the last stretch or of the run, that of the whole run, and the changes.
void add_bottleneck(const Bottleneck& b, Json& json) {
  json.update(json_of(b));
  json["of_last_stretch"] = b.of_last_stretch;
  json["whole_run"] = json_of(b.whole);
  json["changes"] = Json::array();
  if (!b.course) return;
  for (const Change& c : b.course->changes) {
    json["changes"].push_back({{"step", c.step},
                               {"seconds_after_start", c.begin >= 0 ? Json(c.begin) : Json()},
                               {"before", c.before},
                               {"after", c.after},
                               {"cause", id_of(c.cause)},
                               {"part_before", c.part_before},
                               {"part_after", c.part_after},
                               {"part_share", c.part_share},
                               {"rank", c.rank},
                               {"reason", id_of(c.reason)},
                               {"attempt", c.attempt},
                               {"text", text_of(c)}});
  }
  json["rank_changes"] = Json::array();
  for (const RankChange& c : b.course->rank_changes) {
    json["rank_changes"].push_back(
        {{"rank", c.rank}, {"step", c.step}, {"before", c.before}, {"after", c.after}});
  }
  json["norm_rises"] = Json::array();
  for (const NormRise& r : b.course->norm_rises) {
    json["norm_rises"].push_back({{"step", r.step}, {"before", r.before}, {"after", r.after}});
  }
}

}  // namespace

Json to_json(const Report& report) {
  Json json = {{"version", kReportVersion},
               {"run", report.name},
               {"live", report.live()},
               {"state", report.state.text},
               {"questions", Json::array()}};
  auto table = [](const Figures& figures) {
    Json object = Json::object();
    for (const auto& [name, value] : figures) object[name] = value;
    return object;
  };
  for (const Answer& a : report.answers) {
    json["questions"].push_back({{"id", a.id},
                                 {"question", a.question},
                                 {"answer", a.answer},
                                 {"figures", table(a.figures)}});
  }
  for (const VerdictText& v : report.verdicts) {
    json["verdicts"][v.about] = {{"verdict", v.verdict},       {"since", v.since},
                                 {"confidence", v.confidence}, {"summary", v.summary},
                                 {"because", v.because},       {"rule", v.rule},
                                 {"advice", v.advice}};
  }
  add_bottleneck(report.bottleneck, json["verdicts"]["bottleneck"]);
  json["verdicts"]["trained"]["answer"] = id_of(report.trained.answer);
  if (report.trained.answer == Trained::Answer::kDiverged) {
    json["verdicts"]["trained"]["diverged_step"] = report.trained.step;
  }
  json["verdicts"]["trained"]["level"] = id_of(report.trained.level.fault);
  json["verdicts"]["trained"]["validation_unlike_training"] = report.trained.level.unlike;
  for (const LossRise& rise : report.trained.rises) {
    json["verdicts"]["trained"]["rises"].push_back({{"step", rise.step},
                                                    {"end", rise.lasts() ? Json() : Json(rise.end)},
                                                    {"before", rise.before},
                                                    {"after", rise.after},
                                                    {"norm_before", rise.norm_before},
                                                    {"norm_after", rise.norm_after}});
  }
  json["verdicts"]["data"]["faults"] = Json::array();
  for (const DataHealth::Fault fault : report.data.faults) {
    json["verdicts"]["data"]["faults"].push_back(id_of(fault));
  }
  json["verdicts"]["overfitting"]["answer"] = id_of(report.overfitting.answer);
  json["verdicts"]["overfitting"]["dropout_too_high"] = report.overfitting.less_dropout > 0;
  json["verdicts"]["overfitting"]["best_step"] = report.overfitting.trend.best_step;
  if (!report.fine_tuning.empty()) json["fine_tuning"] = table(report.fine_tuning);
  json["environment"] = table(report.environment);
  json["settings"] = report.settings;
  json["notes"] = table(report.notes);
  json["numbers"] = report.numbers;
  return json;
}

// The order of importance: verdict, advice, then evidence.
std::string to_text(const Report& report) {
  std::string text = format("{} ({})\n\n", report.name, report.state.text);
  for (const VerdictText& v : report.verdicts) {
    text += format("  {}: {}\n", v.about, headline(v));
    if (!v.summary.empty()) text += format("      {}\n", v.summary);
    if (!v.advice.empty()) text += format("      advice: {}\n", v.advice);
    for (const std::string& clause : clauses_of(v.because)) text += format("      - {}\n", clause);
    text += "\n";
  }
  for (const auto& [name, value] : report.notes) text += format("  note: {}: {}\n", name, value);
  if (!report.notes.empty()) text += "\n";
  for (const Answer& a : report.answers) text += format("  {}\n      {}\n", a.question, a.answer);
  if (!report.fine_tuning.empty()) text += "  compared with the starting point\n";
  for (const auto& [name, value] : report.fine_tuning)
    text += format("      {}: {}\n", name, value);
  return text;
}

std::vector<std::string> write_report(const std::vector<Report>& reports,
                                      const std::string& directory,
                                      const std::vector<std::string>& comparison) {
  Json json = Json::array();
  for (const Report& report : reports) json.push_back(to_json(report));
  const std::string page = directory + "/report.html";
  const std::string data = directory + "/report.json";
  write_whole(page, report_page(reports, comparison));
  write_whole(data, pretty(reports.size() == 1 ? json[0] : json));
  return {page, data};
}

}  // namespace reigen
