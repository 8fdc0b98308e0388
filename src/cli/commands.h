// The commands. Each has one file, takes typed options and returns when its work is done.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/attach_options.h"
#include "config/average_options.h"
#include "config/continue_options.h"
#include "config/corpus_options.h"
#include "config/decode_options.h"
#include "config/demo_options.h"
#include "config/doctor_options.h"
#include "config/evaluate_options.h"
#include "config/export_options.h"
#include "config/import_options.h"
#include "config/inspect_options.h"
#include "config/join_options.h"
#include "config/prepare_options.h"
#include "config/quantize_options.h"
#include "config/report_options.h"
#include "config/restore_options.h"
#include "config/schedule_options.h"
#include "config/score_options.h"
#include "config/train_options.h"

namespace reigen {

void run_corpus(const CorpusOptions& options);
void run_prepare(const PrepareOptions& options);
void run_inspect(const InspectOptions& options);
void run_train(const TrainOptions& options);
void run_attach(const AttachOptions& options);
void run_restore(const RestoreOptions& options);
void run_continue(const ContinueOptions& options);
void run_join(const JoinJobOptions& options);
void run_translate(const TranslateOptions& options);
void run_evaluate(const EvaluateOptions& options);
void run_average(const AverageOptions& options);
void run_score(const ScoreOptions& options);
void run_quantize(const QuantizeOptions& options);
void run_import(const ImportOptions& options);
void run_export(const ExportOptions& options);
void run_dashboard(const DashboardOptions& options);
void run_top(const TopOptions& options);
void run_report(const ReportOptions& options);
void run_schedule(const ScheduleCommandOptions& options);
void run_doctor(const DoctorOptions& options);
void run_demo(const DemoOptions& options);

std::string version_text();  // for `reigen --version`

}  // namespace reigen
