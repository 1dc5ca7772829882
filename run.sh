D=$(cd "$(dirname "$0")" && basename -- "${BASH_SOURCE[0]}" .sh)
N=$(python3 -c 'import sys; print(sys.version_info[0])' 2>/dev/null)
P=$(python3 - <<'EOF'
print(7)
EOF
)
G=$(ls /no/device 2>/dev/null && echo npu || echo gpu)
if [ "$G" = gpu ]; then E=$(echo a b | tr ' ' '-' | sed 's/b/c/'); fi
python3 -m verl.trainer.main_ppo d.d=$D n.n=$N p.p=$P g.g=$G e.e=$E t.t=$(date +%Y) k.k=$(($(nproc) > 0))
