#!/bin/sh
# A second copy of the last checkpoint in a bucket of S3 or GCS, for --checkpoint.copy-to command:./bucket-copy.sh and
# reigen restore; REIGEN_COPY is its place, such as s3://my-bucket/reigen/copy.
set -euf
to=$REIGEN_COPY
case $to in
gs://*)
  upload() { gcloud storage rsync --no-user-output-enabled --recursive "$1" "$2"; }
  read_file() { gcloud storage cat "$1"; }
  write_file() { gcloud storage cp --no-user-output-enabled - "$1"; }
  names() { gcloud storage ls "$1/" | sed 's|.*/||'; }
  ;;
*)
  upload() { aws s3 cp --only-show-errors --recursive "$1" "$2"; }
  read_file() { aws s3 cp --only-show-errors "$1" -; }
  write_file() { aws s3 cp --only-show-errors - "$1"; }
  names() { aws s3 ls "$1/" | awk '{print $4}'; }
  ;;
esac
case $1 in
put) upload "$2" "$to/$3" ;;
sums) # read back and compared: a copy counts only when it is complete there
  for file in $(names "$to/$2"); do
    read_file "$to/$2/$file" | sha256sum | sed "s|-\$|$file|"
  done
  ;;
keep) echo "$2" | write_file "$to/last" ;; # older ones may be deleted: a lifecycle rule of the bucket
get)
  name=$(read_file "$to/last")
  case ${name#step-} in # it must not lead elsewhere
  '' | *[!0-9]*) echo "$to/last names no checkpoint: $name" >&2 && exit 1 ;;
  esac
  mkdir -p "$2/$name"
  for file in $(names "$to/$name"); do read_file "$to/$name/$file" >"$2/$name/$file"; done
  ;;
esac
