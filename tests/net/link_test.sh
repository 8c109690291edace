#!/bin/bash
# link_test.sh - alpha and beta of a link whose rate is known: two network namespaces joined by a pair of virtual Ethernet
# devices, each with a token bucket filter. The fitted beta is within 10% of the rate that was set.
#
# The namespaces have no names and end with the processes in them, so nothing is left behind.
set -u

link=tests/net/link
rates="50 200" # Mbit/s, which two busy cores carry

skip() {
    echo "1..0 # SKIP $1"
    exit 0
}

there() {
    nsenter --net="/proc/$server/ns/net" "$@"
}

make_link() {
    local limit=(root tbf rate "$1mbit" burst 16kb limit 8mb) # short bursts, and a queue that drops nothing
    ip link add near type veth peer name far netns "$server" &&
        ip address add 10.0.0.1/24 dev near && ip link set near up &&
        there ip address add 10.0.0.2/24 dev far && there ip link set far up &&
        tc qdisc add dev near "${limit[@]}" && there tc qdisc add dev far "${limit[@]}"
}

# In the sender's namespace: test_rate RATE NUMBER.
test_rate() {
    unshare --net "$link" serve &
    server=$!
    trap 'kill $server 2>/dev/null' EXIT
    for _ in $(seq 100); do # until the server has a namespace of its own
        [ "$(readlink "/proc/$server/ns/net")" != "$(readlink /proc/self/ns/net)" ] && break
        sleep 0.05
    done
    if ! make_link "$1"; then
        echo "ok $2 - $1 Mbit/s # SKIP no link of limited rate can be made here"
    elif timeout 60 "$link" measure 10.0.0.2 "$1"; then
        echo "ok $2 - beta within 10% of $1 Mbit/s"
    else
        echo "not ok $2 - beta within 10% of $1 Mbit/s"
    fi
}

if [ "${1-}" = inside ]; then
    test_rate "$2" "$3"
    exit
fi

export PATH=$PATH:/usr/sbin:/sbin
for tool in ip tc unshare nsenter; do
    command -v $tool >/dev/null || skip "$tool was not found (Debian packages iproute2, util-linux)"
done
unshare --net true 2>/dev/null || skip "network namespaces are not allowed here"
echo "1..$(wc -w <<<"$rates")"
number=0
for rate in $rates; do
    number=$((number + 1))
    unshare --net bash "$0" inside "$rate" $number
done
