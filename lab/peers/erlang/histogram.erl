%% Counts of times in nanoseconds, shared by all processes. Each bucket is at most 1/64 of its
%% times wide. Each scheduler has counters of its own, so that counting does not contend.
-module(histogram).

-export([new/0, note/2, total/1, quantile/2, greatest/1]).

%% Buckets of one power of two.
-define(FINE, 64).
-define(FINE_BITS, 6).
-define(POWERS, 40).
-define(BUCKETS, (?FINE * ?POWERS)).

new() -> counters:new(?BUCKETS, [write_concurrency]).

note(Ns, Histogram) -> counters:add(Histogram, bucket(max(0, Ns)) + 1, 1).

bucket(Ns) when Ns < ?FINE -> Ns;
bucket(Ns) ->
    Power = power(Ns bsr ?FINE_BITS, 0),
    min(?BUCKETS - 1, ?FINE * Power + (Ns bsr Power)).

%% Returns the number of bits after the first one.
power(N, Bits) when N >= 16#10000 -> power(N bsr 16, Bits + 16);
power(N, Bits) when N >= 16#100 -> power(N bsr 8, Bits + 8);
power(N, Bits) when N >= 16#10 -> power(N bsr 4, Bits + 4);
power(N, Bits) when N >= 4 -> power(N bsr 2, Bits + 2);
power(N, Bits) when N >= 2 -> Bits + 1;
power(_, Bits) -> Bits.

%% Returns the middle of a bucket's times.
middle(Bucket) when Bucket < 2 * ?FINE -> Bucket;
middle(Bucket) ->
    Power = Bucket div ?FINE - 1,
    ((Bucket rem ?FINE + ?FINE) bsl Power) + (1 bsl Power) div 2.

counts(Histogram) -> [{Bucket, counters:get(Histogram, Bucket + 1)} || Bucket <- lists:seq(0, ?BUCKETS - 1)].

total(Histogram) -> lists:sum([Count || {_, Count} <- counts(Histogram)]).

%% Returns a time in nanoseconds.
quantile(Share, Histogram) ->
    at(max(1, ceil(Share * total(Histogram))), counts(Histogram)).

at(Rank, [{Bucket, Count} | _]) when Rank =< Count -> middle(Bucket);
at(Rank, [{_, Count} | Rest]) -> at(Rank - Count, Rest);
at(_, []) -> 0.

greatest(Histogram) ->
    lists:last([0 | [middle(Bucket) || {Bucket, Count} <- counts(Histogram), Count > 0]]).
