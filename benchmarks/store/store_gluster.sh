#!/bin/sh
# A shared file system on one machine: GlusterFS with one brick, over loopback. Needs root and glusterfs-server.
#
#   benchmarks/store/store_gluster.sh up DIR      starts it and mounts it at DIR/mount; the files are in DIR/brick. DIR is new or empty
#   benchmarks/store/store_gluster.sh cold DIR    forgets all cached files, in the servers and in the kernel
#   benchmarks/store/store_gluster.sh down DIR    stops it and removes DIR
#
# Its daemon has its own working directory, so an installed GlusterFS is not touched; but its port must be free.
set -eu

action=${1:-}
directory=${2:-}
case $directory in /*) ;; *) echo "usage: $0 up|cold|down /absolute/directory" >&2; exit 2 ;; esac
volume=millrace-bench
host=$(hostname)  # peers refuse 127.0.0.1

gluster() { command gluster --mode=script --glusterd-sock="$directory/glusterd.socket" "$@"; }

# One way: the processes whose command line names the directory of this run.
stop_all() {
  umount -l "$directory/mount" 2>/dev/null || true
  for file in "$directory"/run/*.pid "$directory"/run/*/*.pid "$directory"/run/*/*/*.pid; do
    [ -f "$file" ] && kill "$(cat "$file")" 2>/dev/null || true
  done
}

mount_volume() {
  glusterfs --volfile-server="$host" --volfile-id="$volume" --log-file="$directory/mount.log" \
    --pid-file="$directory/run/mount.pid" "$directory/mount"
}

case $action in
  up)
    mkdir -p "$directory"
    [ -z "$(ls -A "$directory")" ] || { echo "$directory is not empty" >&2; exit 2; }
    touch "$directory/.store_gluster"  # `down` may remove it
    mkdir "$directory/brick" "$directory/mount" "$directory/work" "$directory/run"
    cat > "$directory/glusterd.vol" <<EOF
volume management
    type mgmt/glusterd
    option working-directory $directory/work
    option run-directory $directory/run
    option glusterd-sockfile $directory/glusterd.socket
    option transport-type socket
    option transport.socket.listen-port 24007
    option transport.socket.bind-address $host
end-volume
EOF
    glusterd -f "$directory/glusterd.vol" -p "$directory/run/glusterd.pid" -l "$directory/glusterd.log"
    tries=0
    until gluster volume list > /dev/null 2>&1; do
      tries=$((tries + 1))
      [ $tries -lt 50 ] || { echo "glusterd did not start; see $directory/glusterd.log" >&2; exit 1; }
      sleep 0.2
    done
    gluster volume create $volume "$host:$directory/brick" force > /dev/null
    gluster volume start $volume > /dev/null
    mount_volume
    ;;
  cold)
    # A new mount has no cache of its own. It needs the file of the old process, which would go on if a process in another
    # namespace still had the mount.
    old=$(cat "$directory/run/mount.pid")
    umount "$directory/mount"
    kill "$old" 2>/dev/null || true
    while [ -e "/proc/$old/exe" ]; do sleep 0.05; done
    sync
    echo 3 > /proc/sys/vm/drop_caches
    mount_volume
    ;;
  down)
    [ -e "$directory/.store_gluster" ] || { echo "$directory was not made by $0 up" >&2; exit 2; }
    gluster volume stop $volume force > /dev/null 2>&1 || true
    stop_all
    rm -rf "$directory"
    ;;
  *)
    echo "usage: $0 up|cold|down DIR" >&2
    exit 2
    ;;
esac
