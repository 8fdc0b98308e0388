#!/bin/bash
# Start script of one spot instance on EC2 or GCE: continues the run of the instance before it, and switches the
# machine off when the run is done. The image has reigen; the bucket has the dataset in data/, bucket-copy.sh, and soon
# a copy of the last checkpoint.
#
# EC2, where the instance's role may read and write the bucket:
#   aws ec2 run-instances --image-id AMI --instance-type g6.xlarge --iam-instance-profile Name=reigen \
#     --instance-initiated-shutdown-behavior terminate --user-data file://recipes/cluster/spot-start.sh \
#     --instance-market-options 'MarketType=spot,SpotOptions={SpotInstanceType=one-time}'
# GCE, where the instance's service account may:
#   gcloud compute instances create reigen --machine-type g2-standard-8 --provisioning-model SPOT \
#     --instance-termination-action STOP --scopes storage-rw \
#     --metadata-from-file startup-script=recipes/cluster/spot-start.sh
# A managed instance group (GCE) or an Auto Scaling group (EC2) of size 1 starts the next instance by itself.
#
# There is no secret of a job, because one machine has no connections to others; the bucket is opened by the role of
# the instance, so no key is in this script.
set -uo pipefail
bucket=${BUCKET:-s3://my-bucket/reigen} # or gs://my-bucket/reigen
read -ra options <<<"${OPTIONS:---preset base}"
export REIGEN_COPY=$bucket/copy HOME=${HOME:-/root}
mkdir -p "${WORK:=/var/lib/reigen}" && cd "$WORK" || exit 7

case $bucket in # dataset and script
gs://*) gcloud storage rsync --recursive "$bucket/data" data && gcloud storage cp "$bucket/bucket-copy.sh" . ;;
*) aws s3 sync --only-show-errors "$bucket/data" data && aws s3 cp --only-show-errors "$bucket/bucket-copy.sh" . ;;
esac || exit 7
# The last checkpoint of the instance before. Without one, this fails, and a new run begins.
[ -e run/last ] || reigen restore "command:sh bucket-copy.sh" --run run || true

# A notice of preemption (30 s to 2 minutes ahead) saves the run, copies it, and ends with exit code 9.
reigen train --data data --run run --checkpoint.minutes 10 --checkpoint.copy-to "command:sh bucket-copy.sh" "${options[@]}"
status=$?
case $status in
9 | 130) exit $status ;; # the provider takes the machine
esac
${POWEROFF:-poweroff} # done, or an error that would repeat: from here on the machine costs nothing
exit $status
