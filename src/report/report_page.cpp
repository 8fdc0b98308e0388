#include "report/report_page.h"

#include <algorithm>
#include <set>

#include "base/format.h"

namespace reigen {
namespace {

// Six colours that differ in lightness as well, in both schemes.
constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#57606a;--line:#d8dee4;--card:#f6f8fa;
--s0:#0550ae;--s1:#bc4c00;--s2:#1a7f37;--s3:#8250df;--s4:#9a6700;--s5:#cf222e;--focus:#0969da}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#9198a1;--line:#30363d;
--card:#161b22;--s0:#6cb6ff;--s1:#f69d50;--s2:#57ab5a;--s3:#b392f0;--s4:#dbab0a;--s5:#ff7b72;--focus:#58a6ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}
header,main,footer{max-width:74rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:0 0 .3rem}h3{font-size:1rem;margin:.8rem 0 .2rem}
.soft,.unit,figcaption .unit{color:var(--soft);font-weight:normal}
a{color:var(--focus)}:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;background:var(--back);padding:.5rem}
section{border:1px solid var(--line);border-radius:8px;padding:1rem;margin:0 0 1rem;overflow-wrap:anywhere}
.answer{font-size:1.1rem;font-weight:600;margin:.2rem 0 .6rem}
.verdicts{display:grid;grid-template-columns:repeat(auto-fit,minmax(16rem,1fr));gap:1rem;margin-bottom:1rem}
.verdicts section{margin:0;background:var(--card)}
dl{display:grid;grid-template-columns:minmax(9rem,max-content) 1fr;gap:.1rem 1rem;margin:.3rem 0}
dt{color:var(--soft)}dd{margin:0}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}
figure{margin:0;max-width:44rem}figcaption{font-weight:600}svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font-size:12px}.grid{stroke:var(--line);fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:6 4}.line.again{stroke-dasharray:2 3}
.s0{stroke:var(--s0)}.s1{stroke:var(--s1)}.s2{stroke:var(--s2)}.s3{stroke:var(--s3)}.s4{stroke:var(--s4)}.s5{stroke:var(--s5)}
.mark{stroke-width:2;fill:var(--back)}
.legend{list-style:none;padding:0;margin:.2rem 0;display:flex;flex-wrap:wrap;gap:.2rem 1rem}
.key{display:inline-block;width:1.2rem;border-top:3px solid;margin-right:.4rem;vertical-align:middle}.key.again{border-top-style:dotted}
.key.s0{color:var(--s0)}.key.s1{color:var(--s1)}.key.s2{color:var(--s2)}.key.s3{color:var(--s3)}.key.s4{color:var(--s4)}.key.s5{color:var(--s5)}
code{background:var(--line);padding:0 .25rem;border-radius:4px;font-size:.9em}
pre{background:var(--card);padding:.8rem;border-radius:6px;overflow:auto;font-size:.85rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid var(--line)}
th[scope=row]{white-space:nowrap}td dl{grid-template-columns:minmax(6rem,12rem) 1fr}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0;margin:.5rem 0}
@media(max-width:40rem){dl{grid-template-columns:1fr}dd{margin:0 0 .4rem}header,main,footer{padding:.7rem}section{padding:.7rem}
svg text{font-size:18px}}
@media print{section{break-inside:avoid}nav{display:none}}
)";

// Escaped, with what stands between backticks as code.
std::string with_code(std::string_view text) {
  std::string out;
  for (bool code = false;; code = !code) {
    const size_t end = text.find('`');
    const std::string part = escaped_html(text.substr(0, end));
    out += code && end != std::string_view::npos ? "<code>" + part + "</code>" : part;
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::string list(const Figures& figures) {
  if (figures.empty()) return "";
  std::string out = "<dl>";
  for (const auto& [name, value] : figures) {
    out += format("<dt>{}</dt><dd>{}</dd>", escaped_html(name), escaped_html(value));
  }
  return out + "</dl>\n";
}

std::string plots(const std::vector<Plot>& all) {
  std::string out;
  for (const Plot& plot : all) out += svg_of(plot);
  return out.empty() ? "" : "<div class=\"plots\">" + out + "</div>\n";
}

std::string verdict_cards(const Report& report) {
  std::string out = "<div class=\"verdicts\">";
  for (const VerdictText& v : report.verdicts) {
    out += format("<section><h2>{}</h2><p class=\"answer\">{}{}</p>", escaped_html(v.about),
                  escaped_html(v.since.empty() ? v.verdict : v.verdict + " " + v.since),
                  v.confidence.empty()
                      ? ""
                      : format(" <span class=\"soft\">confidence {}</span>", v.confidence));
    if (!v.summary.empty()) out += format("<p>{}</p>", escaped_html(v.summary));
    if (!v.advice.empty()) out += format("<p>Advice: {}.</p>", with_code(v.advice));
    out += "<ul>";
    for (const std::string& clause : clauses_of(v.because)) {
      out += format("<li>{}</li>", with_code(clause));
    }
    out += "</ul>";
    out += format(
        "<details><summary class=\"soft\">Rule</summary><p class=\"soft\">{}.</p></details>"
        "</section>",
        escaped_html(v.rule));
  }
  return out + "</div>\n";
}

std::string samples_table(const std::vector<SampleTranslation>& samples) {
  if (samples.empty()) return "";
  std::string out =
      "<section><h2>Translations at the last evaluation</h2><div class=\"wide\"><table><thead><tr>"
      "<th scope=\"col\">source</th><th scope=\"col\">reference</th><th scope=\"col\">translation"
      "</th></tr></thead><tbody>";
  for (const SampleTranslation& s : samples) {
    out += format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", escaped_html(s.source),
                  escaped_html(s.reference), escaped_html(s.hypothesis));
  }
  return out + "</tbody></table></div></section>\n";
}

std::string one_report(const Report& report) {
  std::string out = verdict_cards(report);
  if (!report.notes.empty()) out += "<section><h2>Notes</h2>" + list(report.notes) + "</section>\n";
  for (const Answer& a : report.answers) {
    out +=
        format("<section id=\"{}\"><h2>{}</h2><p class=\"answer\">{}</p>{}{}</section>\n", a.id,
               escaped_html(a.question), escaped_html(a.answer), list(a.figures), plots(a.plots));
  }
  if (!report.fine_tuning.empty()) {
    out += "<section id=\"fine-tuning\"><h2>Compared with the starting point</h2>" +
           list(report.fine_tuning) + "</section>\n";
  }
  out += samples_table(report.samples);
  out += "<section><h2>Environment</h2>" + list(report.environment) + "</section>\n";
  out += format(
      "<section><details id=\"config\"><summary>Configuration</summary><pre "
      "tabindex=\"0\">{}</pre></details></section>\n",
      escaped_html(report.config));
  if (report.log_tail.empty()) return out;
  out += "<section><h2>Last lines of the log</h2><pre tabindex=\"0\">";
  for (const std::string& line : report.log_tail) out += escaped_html(line) + "\n";
  return out + "</pre></section>\n";
}

// The plots of one question on common axes, with a line for each run.
std::vector<Plot> joined_plots(const std::vector<Report>& reports, size_t question) {
  std::vector<Plot> joined;
  for (const Report& report : reports) {
    for (const Plot& plot : report.answers[question].plots) {
      auto found = std::find_if(joined.begin(), joined.end(),
                                [&](const Plot& p) { return p.title == plot.title; });
      if (found == joined.end()) {
        joined.push_back(plot);
        joined.back().series.clear();
        found = joined.end() - 1;
      }
      for (const PlotSeries& series : plot.series) {
        found->series.push_back(series);
        found->series.back().name = report.name + ": " + series.name;
      }
    }
  }
  return joined;
}

// Table rows for the settings that are not the same in all runs.
std::string differing_settings(const std::vector<Report>& reports) {
  auto text_of = [](const Report& r, const std::string& name) {
    const auto found = r.settings.find(name);
    if (found == r.settings.end()) return std::string("-");
    return found->is_string() ? found->get<std::string>() : one_line(*found);
  };
  std::set<std::string> names;
  for (const Report& r : reports) {
    for (const auto& [name, value] : r.settings.items()) names.insert(name);
  }
  std::string rows;
  for (const std::string& name : names) {
    const bool same = std::all_of(reports.begin(), reports.end(), [&](const Report& r) {
      return text_of(r, name) == text_of(reports[0], name);
    });
    if (same) continue;
    rows += format("<tr><th scope=\"row\">{}</th>", escaped_html(name));
    for (const Report& r : reports) rows += "<td>" + escaped_html(text_of(r, name)) + "</td>";
    rows += "</tr>";
  }
  return rows;
}

std::string comparison_section(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string out = "<section id=\"comparison\"><h2>What differs, and what that did</h2><ul>";
  for (const std::string& sentence : sentences) {
    out += format("<li>{}</li>", escaped_html(sentence));
  }
  return out + "</ul></section>\n";
}

std::string side_by_side(const std::vector<Report>& reports) {
  auto head = [&] {
    std::string row = "<thead><tr><th scope=\"col\"></th>";
    for (const Report& r : reports) {
      row += format("<th scope=\"col\">{}</th>", escaped_html(r.name));
    }
    return row + "</tr></thead>";
  };
  std::string out = "<section><h2>Verdicts</h2><div class=\"wide\"><table>" + head() + "<tbody>";
  for (size_t i = 0; i < reports[0].verdicts.size(); ++i) {
    out += format("<tr><th scope=\"row\">{}</th>", escaped_html(reports[0].verdicts[i].about));
    for (const Report& r : reports) {
      const VerdictText& v = r.verdicts[i];
      out += format("<td><strong>{}</strong> <span class=\"soft\">{}</span><br>{}{}</td>",
                    escaped_html(v.verdict), escaped_html(v.confidence), escaped_html(v.because),
                    v.advice.empty() ? "" : "<br>Advice: " + with_code(v.advice) + ".");
    }
    out += "</tr>";
  }
  out += "</tbody></table></div></section>\n";
  for (size_t i = 0; i < reports[0].answers.size(); ++i) {
    const Answer& a = reports[0].answers[i];
    out += format(
        "<section id=\"{}\"><h2>{}</h2><div class=\"wide\"><table>{}<tbody><tr><th "
        "scope=\"row\">answer</th>",
        a.id, escaped_html(a.question), head());
    for (const Report& r : reports) {
      out += format("<td><strong>{}</strong>{}</td>", escaped_html(r.answers[i].answer),
                    list(r.answers[i].figures));
    }
    out += "</tr></tbody></table></div>" + plots(joined_plots(reports, i)) + "</section>\n";
  }
  out +=
      "<section><h2>Environment</h2><div class=\"wide\"><table>" + head() + "<tbody><tr><th></th>";
  for (const Report& r : reports) out += "<td>" + list(r.environment) + "</td>";
  out += "</tr></tbody></table></div></section>\n<section><h2>Settings that differ</h2>";
  const std::string rows = differing_settings(reports);
  if (rows.empty()) return out + "<p>None.</p></section>\n";
  return out + "<div class=\"wide\"><table>" + head() + "<tbody>" + rows +
         "</tbody></table></div></section>\n";
}

std::string title_of(const std::vector<Report>& reports) {
  std::string title;
  for (const Report& r : reports) title += (title.empty() ? "" : " and ") + r.name;
  return title;
}

// The id "average-step" as the words "average step".
std::string words_of(std::string id) {
  std::replace(id.begin(), id.end(), '-', ' ');
  return id;
}

std::string whole_page(const std::vector<Report>& reports, const std::string& state,
                       const std::string& content) {
  std::string out = format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
      "http-equiv=\"Content-Security-Policy\" content=\"{}\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" "
      "href=\"data:,\"><title>{} - "
      "Reigen</title><style>{}</style></head><body><a class=\"skip\" href=\"#content\">To the "
      "answers</a><header><h1>{}</h1><p class=\"soft\">{}</p><nav "
      "aria-label=\"Questions\"><ul>",
      kReportPolicy, escaped_html(title_of(reports)), kStyle, escaped_html(title_of(reports)),
      escaped_html(state));
  for (const Answer& a : reports[0].answers) {
    out += format("<li><a href=\"#{}\">{}</a></li>", a.id, escaped_html(words_of(a.id)));
  }
  out += "</ul></nav></header><main id=\"content\" tabindex=\"-1\">" + content +
         "</main><footer class=\"soft\">Written by Reigen.</footer>";
  return out + "</body></html>\n";
}

}  // namespace

std::string report_page(const std::vector<Report>& reports,
                        const std::vector<std::string>& comparison) {
  const auto unfinished = std::find_if(reports.begin(), reports.end(), [](const Report& r) {
    return r.state.kind != RunStateKind::kEnded;
  });
  const Report& shown = unfinished == reports.end() ? reports[0] : *unfinished;
  return whole_page(reports, shown.state.text,
                    reports.size() == 1 ? one_report(reports[0])
                                        : comparison_section(comparison) + side_by_side(reports));
}

}  // namespace reigen
