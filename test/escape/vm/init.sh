#!/bin/busybox sh
# The first process of a machine with cgroup v2 alone: a warden in the root group, one alone in a
# group of its own, as in a unit, and one that shares its group with others. Then it goes off.
busybox=/bin/busybox
if [ "$1" != second ]; then
  $busybox mkdir /new
  $busybox mount -t tmpfs new /new
  $busybox cp -a /bin /plans /init /new/
  for dir in proc sys dev tmp ws; do $busybox mkdir /new/$dir; done
  exec $busybox switch_root /new /init second
fi
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sys /sys
$busybox mount -t devtmpfs dev /dev
$busybox mount -t tmpfs tmp /tmp
$busybox mount -t cgroup2 none /sys/fs/cgroup
$busybox chown 61234:61234 /ws
printf 'uid 61234 61234\ngid 61234 61234\nclient_uid 0\nro /bin\nrw /ws\n' >/tmp/bounds

for where in root alone crowd; do
  echo "in $where"
  group=/sys/fs/cgroup
  [ $where = root ] || group=$group/$where
  $busybox mkdir -p $group
  [ $where = crowd ] && $busybox sh -c "echo 0 >$group/cgroup.procs; exec $busybox sleep 999" &
  [ $where = root ] || echo 0 >$group/cgroup.procs
  /bin/warden --run /tmp/run --socket /tmp/sock --bounds /tmp/bounds --halt /tmp/HALT &
  warden=$!
  [ $where = root ] || echo 0 >/sys/fs/cgroup/cgroup.procs
  while [ ! -S /tmp/sock ]; do $busybox sleep 0.1; done
  /bin/client /tmp/sock /plans/*
  $busybox kill $warden
  wait $warden
  for try in $($busybox seq 100); do
    left=$($busybox find /sys/fs/cgroup -name 'agentd-*' | $busybox tr '\n' ' ')
    [ -z "$left" ] && break
    $busybox sleep 0.5
  done
  echo "left: $left"
done
$busybox poweroff -f
