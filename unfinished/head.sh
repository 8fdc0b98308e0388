ROOT=$1; L=/tmp/logs; mkdir -p $L; W=/tmp/run; mkdir -p $W
tar -C $W -xf $ROOT/build/gpu/pack.tar.xz; P=$W/pack
export LD_LIBRARY_PATH=$P/lib:$(python3 -c "import nvidia.nccl,os;print(os.path.join(list(nvidia.nccl.__path__)[0],'lib'))" 2>/dev/null):/usr/local/cuda/lib64:$LD_LIBRARY_PATH
R=$P/bin/reigen; export REIGEN=$R REIGEN_SOURCE=$ROOT
S=$SECONDS; note() { echo "[$((SECONDS-S)) s] $*" | tee -a $L/summary; }
save() { tar -C /tmp -czf $OUT/logs.tar.gz logs; }
cd $W; for a in europarl-200k multi30k; do tar xf $P/data/$a.tar.xz; done
E=europarl-uds-en-de; M=multi30k
prepare() {
  $R prepare --source en --target de --train $E/train.200k.en $E/train.200k.de --valid $E/valid.en $E/valid.de --test $E/test.en $E/test.de --vocab-size 16000 -o ep --threads 8 > $L/prepare-ep 2>&1 &
  $R prepare --source en --target de --train $M/train.en $M/train.de --valid $M/valid.en $M/valid.de --test $M/test_2016_flickr.en $M/test_2016_flickr.de --vocab-size 10000 -o m30 --threads 8 > $L/prepare-m30 2>&1
  wait
}
