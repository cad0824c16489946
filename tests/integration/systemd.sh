# A user's systemd in namespaces of its own, which end with it. Arguments: a directory of the
# test's own, then the command to run beside it.
set -e
directory=$1
shift
mount -t tmpfs none /run
mkdir -p /run/systemd/system
if mountpoint -q /sys/fs/cgroup; then umount -R /sys/fs/cgroup; fi
mount -t cgroup2 none /sys/fs/cgroup
group=/sys/fs/cgroup/$(basename "$directory")
mkdir "$group"
# Whatever fails, the group is to go: it is in the one hierarchy of the machine.
trap 'kill $manager; wait $manager; echo $$ > /sys/fs/cgroup/cgroup.procs
  find "$group" -depth -type d -exec rmdir {} \;' EXIT
echo $$ > "$group/cgroup.procs"
export HOME=$directory XDG_RUNTIME_DIR=$directory/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
"${SYSTEMD:-/usr/lib/systemd/systemd}" --user --log-target=console &
manager=$!
for _ in $(seq 300); do
  if systemctl --user is-system-running >"$directory/state" 2>&1; then break; fi
  if grep -q degraded "$directory/state"; then break; fi
  sleep 0.1
done
"$@"
