#!/usr/bin/env python3
"""Replays the attacks of docs/design/security.md against the release program and prints their table.

    tests/long/attacks.py [--rounds N] [--only REGEX]

An attack is one or several tests, which assert that it does no harm. `tries` counts single attempts: those within a
run of its tests times the rounds. An attack that did harm in any round is shown as such, and the exit status is 1.
$REIGEN and $REIGEN_TESTS replace the program and the folder of the compiled tests: with an older program, the table
shows what that program did not withstand.
"""

import argparse
import os
import re
import subprocess
import sys
import time

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
REIGEN = os.environ.get("REIGEN", f"{SOURCE}/build/release/reigen")
TESTS = os.environ.get("REIGEN_TESTS", f"{SOURCE}/build/release/tests")
LONGEST = 280  # seconds of one test

# Attack; tests, as "script Class.test" or "program_tests Suite.Test"; attempts within one run of them; result.
ATTACKS = [
    ("`--hosts` with one worker in all (`vm1`, `vm1:1`)",
     ["cli/workers AcrossHosts.test_one_worker_on_one_host_is_started_once"], 2, "one ssh session each"),
    ("a stranger with the stock program and the guessable name of a torchrun job as token, started before the worker",
     ["cli/strangers Joining.test_a_guessed_token_does_not_join"], 2, "never a member; the job trains to its end"),
    ("wrong token; a rendezvous without the token; a proof passed on by a different process",
     ["dist_tests Rendezvous.AWrongTokenIsRefusedAndCounted", "dist_tests Rendezvous.AServerWithoutTheTokenIsRefused",
      "dist_tests Rendezvous.AProofThatIsPassedOnByAnotherProcessIsRefused"], 3, "refused"),
    ("a worker in clear joins an encrypted job",
     ["dist/processes Namespaces.test_a_worker_that_does_not_encrypt_cannot_join_a_job_that_does",
      "dist_tests Rendezvous.AnEncryptedJobTakesNoWorkerInClear"], 2, "never a member"),
    ("several hosts under torchrun's variables without a secret; with a short one; with a file that others can read",
     ["cli/strangers Joining.test_several_hosts_without_a_secret_are_refused",
      "dist/processes Namespaces.test_several_hosts_under_torchrun_need_a_secret",
      "dist_tests TokenFile.IsRefusedIfOthersHaveAccessOrItIsTooShort"], 6, "exit 2"),
    ("listeners of a local job; of a job on two hosts with a second network",
     ["cli/strangers Joining.test_a_job_of_one_machine_listens_on_loopback_only",
      "dist/processes Namespaces.test_a_local_job_listens_on_loopback_only",
      "dist/processes Namespaces.test_a_job_on_hosts_listens_on_their_network_only"], 3,
     "127.0.0.1 only; the job's network only"),
    ("100 silent connections from another host, renewed at once, while a job starts",
     ["cli/strangers Disturbing.test_silent_connections_do_not_keep_workers_out"], 1, "formed"),
    ("300 silent connections, renewed, while a mesh forms",
     ["dist/processes Namespaces.test_strangers_that_connect_first_do_not_keep_a_worker_out"], 1, "formed"),
    ("listeners without an answer on all addresses of a rendezvous but one",
     ["dist_tests Rendezvous.IsFoundBehindListenersThatDoNotAnswer"], 7, "joined"),
    ("a server without the token that sends long texts, lines and escape sequences",
     ["dist_tests Rendezvous.TheTextOfAServerThatProvesNothingIsShortAndMarked"], 3, "one short line, marked"),
    ("40 connections with junk at the rendezvous",
     ["cli/workers AcrossHosts.test_junk_at_the_rendezvous_does_not_stop_workers_from_joining"], 1, "formed"),
    ("a local process that connects first to every port of a starting job; the same with 112 bytes of a Gloo frame",
     ["cli/strangers Disturbing.test_a_stranger_that_connects_first_does_not_end_the_job"], 2, "trained to the end"),
    ("man in the middle of a training job: a bit changed, a block repeated, a block dropped, a byte dropped",
     ["cli/strangers OnTheWay.test_bytes_that_are_changed_repeated_or_dropped_end_the_job"], 4, "exit 5 on both hosts"),
    ("the same at a single encrypted connection",
     ["dist_tests Channel.BytesThatWereChangedRepeatedOrDroppedNeverArrive"], 3, "nothing after them arrives"),
    ("man in the middle reads a job with `--send-data`",
     ["cli/strangers OnTheWay.test_nothing_readable_is_on_the_way"], 1, "no message, no known bytes of the data"),
    ("man in the middle changes the name of a file of `--send-data`",
     ["cli/strangers OnTheWay.test_the_name_of_a_sent_file_cannot_be_changed"], 1,
     "finds no name to change; no file outside of the directory"),
    ("two workers cut off from each other",
     ["cli/strangers Disturbing.test_two_workers_that_cannot_reach_each_other_are_named",
      "dist/processes Namespaces.test_two_workers_that_cannot_reach_each_other_are_named"], 2, "both named, exit 5"),
    ("live page: 2,700 ranges in a request, 24 requests",
     ["cli/live_page Attacked.test_many_ranges_are_not_multiplied"], 24, "page and trainer within 8 MB"),
    ("live page: chunked and endless bodies, endless headers, junk, 8 MB each",
     ["cli/live_page Attacked.test_floods_of_bytes_are_not_stored"], 16, "page within 8 MB"),
    ("live page: 300 idle connections, renewed; 128 descriptors",
     ["cli/live_page Attacked.test_idle_connections_fail_no_checkpoint"], 1, "every checkpoint written"),
    ("live page: a request that never ends, at the end of a run",
     ["cli/live_page Attacked.test_a_client_that_never_ends_its_request_does_not_delay_the_end"], 1, "the run ends"),
    ("live page: no token; foreign Host headers; paths, methods and ranges",
     ["cli/live_page Server.test_requests_without_the_token_are_refused",
      "cli/live_page Server.test_a_foreign_host_header_is_refused",
      "cli/live_page Server.test_only_the_files_of_the_page_are_served_and_only_by_get"], 45, "refused"),
    ("live page: SIGKILL of the page; of the trainer",
     ["cli/live_page Attacked.test_training_continues_when_the_page_dies_and_the_page_comes_back",
      "cli/live_page Attacked.test_the_page_is_a_process_with_limits_and_ends_with_training"], 3,
     "training continues and the page returns; the page ends"),
    ("token of the page in arguments and files; of a job on hosts likewise",
     ["cli/live_page Server.test_the_token_is_in_no_command_line_and_in_no_file_that_others_may_read",
      "cli/run_directory AcrossHosts.test_the_token_of_a_job_is_in_no_command_line_and_no_file"], 4, "in none"),
    ("strangers that flood the ports of the survivors while an elastic job forms again",
     ["cli/elastic Survivors.test_strangers_that_flood_the_ports_of_the_survivors_make_no_loss"], 1, "one loss, the true one"),
    ("commands, a program for other hosts and a live page in the record of a run; a command in a configuration",
     ["cli/hostile_files Records.test_a_record_runs_no_program", "cli/hostile_files Records.test_a_record_opens_no_page",
      "cli/hostile_files Records.test_a_record_names_no_program_of_other_hosts",
      "cli/hostile_files Records.test_a_configuration_names_no_command",
      "config_tests Schema.ARecordGivesNoOptionThatIsNotRecorded:Schema.SomeValuesOfAnOptionAreRefusedInFiles"], 8,
     "none run, none opened"),
    ("links, endless output and holes where `eval.command` writes; an id of a run that is a link",
     ["train_tests ScoresByCommand.*:TakeOver.AnIdIsNoLinkAndNotLong"], 9, "not followed, not read"),
    ("secrets in the environment of commands; events with long and hostile messages",
     ["train_tests OnEvent.*"], 4, "none; one short line"),
    ("files of 1 TB with holes in place of small ones",
     ["cli/hostile_files Links.test_a_file_with_holes_in_place_of_a_small_one"], 4, "refused at once"),
    ("tensors that overlap; names with Markdown, HTML and commands in checkpoints and folders",
     ["tensor_tests SafeTensors.RefuseTensorsThatOverlap",
      "cli/convert ToTransformers.test_names_from_elsewhere_have_no_meaning_in_a_card",
      "cli/convert FromTransformers.test_the_command_that_converts_a_pickle_runs_nothing_of_a_folder_s_name"], 9,
     "refused, or without meaning"),
    ("a program with set-user-ID bits in a copy that root restores; paths in place of a name in a bucket",
     ["cli/copy Copies.test_a_copy_from_elsewhere_brings_no_program_with_rights",
      "recipes/cluster Cluster.test_a_name_from_the_bucket_leads_nowhere_else"], 6, "without rights; refused"),
    ("lines that are no records, names with quotes, FIFOs and devices for the trackers of `recipes`",
     ["recipes/trackers Trackers.test_a_hostile_log_and_name"], 14, "left out, or without meaning"),
    ("ids beyond the vocabulary; manifests that differ from their files",
     ["cli/hostile_files Datasets.test_tokens_beyond_the_vocabulary_are_refused_by_every_command",
      "cli/hostile_files Datasets.test_a_manifest_that_does_not_match_its_files_is_refused",
      "cli/hostile_files Datasets.test_evaluate_checks_the_dataset_that_it_scores"], 17, "exit 3, file named"),
    ("hostile normalisers and pieces in a `.model`",
     ["cli/hostile_files Vocabularies.test_a_broken_normaliser_is_refused_by_prepare_and_translate",
      "text_tests Charsmap.Refuses*:HostileModel.*"], 10, "exit 3"),
    ("wrong fields in a checkpoint; the newest one unreadable",
     ["cli/hostile_files Checkpoints.test_wrong_fields_are_bad_checkpoints",
      "cli/hostile_files Checkpoints.test_a_checkpoint_that_cannot_be_read_costs_only_its_steps"], 13,
     "exit 4; resumes from the one before"),
    ("links, FIFOs and foreign files where a run, an output or a report is written",
     ["cli/hostile_files Links.test_the_lock_of_an_output", "cli/hostile_files Links.test_the_files_of_a_run",
      "cli/hostile_files Links.test_the_folders_of_a_run", "cli/hostile_files Links.test_a_lock_file_that_is_no_lock",
      "cli/hostile_files Links.test_the_output_of_a_report"], 14, "refused, targets unchanged"),
    ("links in place of checkpoints to come",
     ["cli/hostile_files Links.test_a_link_in_place_of_a_future_checkpoint",
      "train_tests RunDirectoryTest.RefusesALinkInPlaceOfACheckpoint",
      "train_tests CheckpointWriterTest.NeverReplacesTheTargetOfALink"], 5, "refused, targets unchanged"),
    ("datasets of `--send-data` with short, endless and special files",
     ["train_tests SendData.SendsNoDatasetThatDiffersFromItsManifest"], 4, "refused, nothing written"),
    ("shards that are overwritten while they are mapped",
     ["data_tests NarrowAndWide/ShardWidths.RefuseAFileThatIsOverwrittenAfterItWasVerified*",
      "data_tests Shard.RefusesTokensThatAppearAfterItWasVerified"], 10, "an error, file named"),
    ("FIFOs, links and `/dev/zero` as files of a run: report, top, attach",
     ["cli/hostile_files Links.test_no_reader_of_a_run_waits_for_a_fifo_or_follows_a_link"], 72,
     "no wait, nothing of the target shown"),
    ("the same for the live page",
     ["cli/live_page Server.test_neither_a_fifo_nor_a_link_in_the_run_is_read"], 16, "no wait, nothing of the target shown"),
    ("FIFOs and `/dev/zero` as files of datasets and checkpoints",
     ["cli/hostile_files Links.test_a_fifo_in_place_of_a_log",
      "cli/hostile_files Links.test_a_fifo_or_a_device_in_place_of_a_file_that_is_read"], 10, "refused at once"),
    ("safetensors with very many names; nested TMX tags",
     ["tensor_tests SafeTensors.ReadAHundredThousandNamesAndRefuseAMillion",
      "data_tests TmxReaderTest.RejectsTagsThatAreNestedTooDeeply",
      "cli/hostile_files Corpora.test_tags_that_are_nested_without_end_are_refused"], 4, "refused"),
    ("damaged `background.json`; a reused process id",
     ["cli/hostile_files Links.test_attach_to_a_process_that_is_no_run", "train_tests Attach.*"], 16, "exit 3; ended at once"),
    ("escape sequences in sentences and names; five commands on a terminal",
     ["cli/run_directory Escapes.test_no_text_from_outside_steers_a_terminal",
      "cli/run_directory Escapes.test_the_console_of_a_run_in_the_background"], 6, "none raw"),
    ("run directory moved, replaced or removed while it trains",
     ["cli/run_directory Moved.test_a_run_that_is_moved_stops_and_is_complete_in_its_new_place",
      "cli/run_directory Moved.test_a_run_that_takes_the_old_place_is_left_alone",
      "cli/run_directory Moved.test_a_run_that_is_removed_ends_and_writes_nothing"], 4,
     "complete in its new place, bit-identical; nothing written to the old path"),
    ("second `--detach`",
     ["cli/run_directory SecondDetach.test_it_harms_nothing",
      "cli/run_directory SecondDetach.test_a_run_in_the_foreground_is_named"], 2, "refused, `attach` follows the first"),
    ("full disk at the end of a run, freed during the wait",
     ["cli/run_directory FullDisk.test_the_end_of_a_run_waits_for_room",
      "cli/run_directory FullDisk.test_a_stopped_job_waits_for_room",
      "cli/run_directory FullDisk.test_a_job_that_lost_a_worker_waits_for_room_for_its_last_checkpoint"], 3,
     "complete, bit-identical"),
    ("a worker that hangs while it waits for room",
     ["cli/run_directory FullDisk.test_a_worker_that_hangs_in_its_wait_is_ended",
      "dist/processes LocalLaunch.test_a_worker_that_hangs_after_a_wait_is_killed",
      "dist/processes HostLaunch.test_a_worker_that_hangs_after_a_wait_is_killed"], 3, "ended, none left"),
    ("workers that ask for a wait that they may not have; a host that takes no copy of the program",
     ["dist_tests LaunchedWorkers.NoOtherRankMayWaitAndNoneBeyondTheLimit",
      "dist/processes HostLaunch.test_a_copy_without_progress_is_an_error"], 3, "ended"),
    ("SIGSTOP of a worker, local and over hosts",
     ["cli/workers LostWorkers.test_a_worker_that_hangs_is_noticed_and_ended",
      "cli/run_directory AcrossHosts.test_a_stopped_worker_of_a_host_is_ended",
      "dist/processes LocalLaunch.test_a_stopped_worker_is_noticed_in_bounded_time"], 4, "named, ended, none left"),
    ("SIGKILL of a worker; of the launcher",
     ["cli/workers LostWorkers.test_a_killed_worker_ends_the_run_which_can_be_resumed",
      "cli/workers LostWorkers.test_no_process_outlives_a_killed_launcher"], 2, "named and resumed; none left"),
    ("SIGKILL of a resumed run when it removes the lost steps from its log",
     ["cli/run_directory DiesInItsSetup.test_steps_that_are_repeated_are_counted_once"], 1, "lost steps counted once"),
    ("arguments that are not UTF-8 to other hosts",
     ["cli/run_directory AcrossHosts.test_arguments_that_are_not_utf8_are_refused_before_any_host_is_reached"], 1,
     "exit 2, no host reached"),
]


def command_of(test):
    program, name = test.split(" ", 1)
    if "/" in program:
        return [sys.executable, f"{SOURCE}/tests/{program}_test.py", name]
    return [f"{TESTS}/{program}", f"--gtest_filter={name}", "--gtest_brief=1"]


def holds(test):
    """Whether the test passed; a test that did not run counts as an error."""
    environment = {**os.environ, "REIGEN": REIGEN, "REIGEN_SOURCE": SOURCE, "REIGEN_TEST_ALL": "1",
                   "DIST_WORKER": f"{TESTS}/dist_worker"}
    try:
        done = subprocess.run(command_of(test), env=environment, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return False
    shown = done.stdout + done.stderr
    if re.search(r"skipped=|SKIPPED|Ran 0 tests|\b0 tests from|NO TESTS RAN", shown):
        sys.exit(f"{test}: was not run here\n{shown}")
    if done.returncode != 0:
        print(f"{test}:\n{shown[-2000:]}", file=sys.stderr)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="attacks whose description or tests match")
    a = parser.parse_args()
    harmed = 0
    print("| attack | tries | result |\n| --- | --- | --- |", flush=True)
    for attack, tests, tries, result in ATTACKS:
        if not re.search(a.only, attack + " ".join(tests)):
            continue
        began = time.monotonic()
        held = sum(all([holds(test) for test in tests]) for _ in range(a.rounds))
        harmed += held < a.rounds
        outcome = result if held == a.rounds else f"**harm in {a.rounds - held} of {a.rounds} rounds**"
        print(f"| {attack} | {tries * a.rounds} | {outcome} |", flush=True)
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return harmed > 0


if __name__ == "__main__":
    sys.exit(main())
