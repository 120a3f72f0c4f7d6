%% The lab's experiments for Erlang: one module for each, with the experiment's name.
%%
%% The program takes a case as JSON and prints its outcome as one line of JSON, as a child of the
%% lab does. A module's run/1 takes the case and returns its figures. It raises {wrong, Text} if
%% its result is wrong.
-module(lab).

-export([main/0, scaled/2, now_ns/0, start_watch/0, stop/1, collect/1, collect/2, check/3]).
-export([seed/1, next/1, number/1, below/2]).

main() ->
    [Json] = init:get_plain_arguments(),
    Case = case_of(Json),
    Module = list_to_atom(maps:get("experiment", Case)),
    try Module:run(Case) of
        Reading -> say(["{\"measured\":{", lists:join(",", [figure(F) || F <- Reading]), "}}"])
    catch
        error:{wrong, Text} -> say(["{\"failed\":\"", Text, "\"}"]);
        Class:Reason:Stack ->
            io:format(standard_error, "~p: ~p at ~P~n", [Class, Reason, Stack, 20]),
            halt(2)
    end.

say(Line) ->
    io:put_chars([Line, "\n"]),
    halt(0).

figure({Name, Value}) ->
    ["\"", atom_to_list(Name), "\":", io_lib:format("~.6f", [float(Value)])].

%% The case.

%% A case is one flat object. Returns a map from its names to its strings and numbers.
case_of(Json) ->
    members(Json, #{}).

members([$" | Rest], Known) ->
    {Name, [$: | Value]} = text(Rest, []),
    case Value of
        [$" | String] ->
            {Text, After} = text(String, []),
            members(After, Known#{Name => Text});
        _ ->
            {Digits, After} = lists:splitwith(fun(C) -> C =/= $, andalso C =/= $} end, Value),
            members(After, Known#{Name => numeral(Digits)})
    end;
members([_ | Rest], Known) -> members(Rest, Known);
members([], Known) -> Known.

text([$" | Rest], Read) -> {lists:reverse(Read), Rest};
text([C | Rest], Read) -> text(Rest, [C | Read]).

%% JSON's 1e-6 is 1.0e-6 in Erlang.
numeral(Digits) ->
    case string:to_integer(Digits) of
        {Integer, ""} -> Integer;
        {_, [$. | _]} -> list_to_float(Digits);
        {Integer, Exponent} -> list_to_float(integer_to_list(Integer) ++ ".0" ++ Exponent)
    end.

%% Returns a number of messages: a test divides it by the case's scale.
scaled(#{"scale" := Scale}, Number) -> max(1, Number div Scale);
scaled(_, Number) -> Number.

%% Time and results.

now_ns() -> erlang:monotonic_time(nanosecond).

%% The clock of a run. The virtual machine tells the CPU time of all of its threads in milliseconds.
start_watch() -> {now_ns(), cpu_ms()}.

stop({Begun, Used}) -> [{run_ms, (now_ns() - Begun) / 1.0e6}, {cpu_ms, cpu_ms() - Used}].

cpu_ms() ->
    {Total, _} = statistics(runtime),
    Total.

%% Waits for this number of results and returns them.
collect(Number) -> collect(Number, []).

collect(0, Results) -> Results;
collect(Number, Results) ->
    receive {result, Result} -> collect(Number - 1, [Result | Results]) end.

check(_, Value, Value) -> ok;
check(What, Value, Expected) ->
    error({wrong, io_lib:format("~s: ~p, not ~p", [What, Value, Expected])}).

%% The generator of all peers: s * 6364136223846793005 + 1442695040888963407 modulo 2^64, of which
%% the high 31 bits are the number. The state is two halves of 32 bits, and no product has more
%% than 49 bits: larger integers would be objects on the heap.

-define(M0, 16#7F2D).
-define(M1, 16#4C95).
-define(M2, 16#F42D).
-define(M3, 16#5851).
-define(ADD_LOW, 16#F767814F).
-define(ADD_HIGH, 16#14057B7E).
-define(HALF, 16#FFFFFFFF).

seed(Number) -> {0, Number + 1}.

next({High, Low}) ->
    Upper = Low * ?M1,
    Sum = Low * ?M0 + ((Upper band 16#FFFF) bsl 16) + ?ADD_LOW,
    Carried = (Sum bsr 32) + (Upper bsr 16),
    Crossed = High * ?M0 + Low * ?M2,
    Shifted = (High * ?M1 + Low * ?M3) band 16#FFFF,
    {(Carried + Crossed + (Shifted bsl 16) + ?ADD_HIGH) band ?HALF, Sum band ?HALF}.

%% The number of a state.
number({High, _}) -> High bsr 1.

%% Returns a number below the bound, and the next state.
below(Bound, State) ->
    {High, _} = Next = next(State),
    {(High bsr 1) rem Bound, Next}.
