// The page of `sinew chat`. Text of other people becomes text nodes only, never markup.
"use strict";

const $ = id => document.getElementById(id);

/** The person at this page, the connection, and the conversations. */
const state = {
  name: null,
  socket: null,
  isWelcome: false,
  /** Conversations by key: rooms are "#" and the name, people "@" and the name, in small letters. */
  talks: new Map(),
  current: null,
  attempts: 0,
  timer: null,
  farewell: null,
};

const roomKey = name => "#" + name.toLowerCase();
const personKey = name => "@" + name.toLowerCase();

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function hue(name) {
  let hash = 7;
  for (const letter of name.toLowerCase()) hash = (hash * 31 + letter.codePointAt(0)) % 360;
  return hash;
}

function avatar(name) {
  const element = make("span", "avatar", [...name][0].toUpperCase());
  element.setAttribute("aria-hidden", "true");
  element.style.setProperty("--hue", hue(name));
  return element;
}

// Conversations

function talkOf(key, label, kind) {
  let talk = state.talks.get(key);
  if (!talk) {
    talk = { key, label, kind, lines: [], pending: [], members: new Set(), count: 0, since: 0, last: 0, unread: 0, isIn: false };
    state.talks.set(key, talk);
  }
  return talk;
}

function open(key) {
  state.current = key;
  const talk = state.talks.get(key);
  if (talk) talk.unread = 0;
  closePanes();
  showTalks();
  showLog();
  showMembers();
  $("text").focus();
}

function close(key) {
  state.talks.delete(key);
  if (state.current === key) state.current = state.talks.keys().next().value ?? null;
  open(state.current);
}

/** Adds a line to a conversation, and shows it if the conversation is open. */
function add(talk, line, isNews) {
  talk.lines.push(line);
  if (talk.lines.length > 2000) talk.lines.splice(0, 500);
  if (state.current !== talk.key) {
    if (isNews) talk.unread += 1;
    return;
  }
  const log = $("log");
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  appendLine(line, talk.lines[talk.lines.length - 2]);
  if (isAtEnd || line.isMine) log.scrollTop = log.scrollHeight;
  else if (isNews) $("newer").hidden = false;
  if (document.hidden && isNews) document.title = "● Sinew chat";
}

function notice(talk, text, isBad) {
  add(talk, { notice: text, isBad }, false);
}

function timeOf(at) {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  const options = isToday ? { hour: "2-digit", minute: "2-digit" } : { dateStyle: "short", timeStyle: "short" };
  return date.toLocaleString([], options);
}

function messageElement(line, before) {
  const isMore = before && before.from === line.from && !before.pending && line.at - before.at < 300000;
  const element = make("div", "message" + (isMore ? " more" : "") + (line.isMine ? " mine" : "") + (line.pending ? " pending" : ""));
  if (!isMore) {
    const who = make("div", "who");
    const name = make("span", "name", line.from);
    name.style.setProperty("--hue", hue(line.from));
    const time = make("time", "", timeOf(line.at));
    time.dateTime = new Date(line.at).toISOString();
    who.append(name, time);
    element.append(avatar(line.from), who);
  }
  element.append(make("div", "text", line.text));
  return element;
}

function appendLine(line, before) {
  const element = line.notice ? make("div", "notice" + (line.isBad ? " bad" : ""), line.notice) : messageElement(line, before);
  $("log").querySelector(".empty")?.remove();
  // Messages that were not confirmed stay at the end.
  $("log").insertBefore(element, $("log").querySelector(".pending"));
}

function showLog() {
  const talk = state.talks.get(state.current);
  const log = $("log");
  log.replaceChildren();
  $("newer").hidden = true;
  $("title").textContent = talk ? (talk.kind === "room" ? "# " + talk.label : talk.label) : "No room";
  $("text").placeholder = talk ? (talk.kind === "room" ? "Write to # " + talk.label : "Write to " + talk.label) : "Join a room first";
  if (talk) {
    talk.lines.forEach((line, at) => appendLine(line, talk.lines[at - 1]));
    showPending(talk);
    if (!talk.lines.length && !talk.pending.length) {
      log.append(make("div", "notice empty", talk.kind === "room" ? "Nothing was said here yet." : "Only you and " + talk.label + " read this."));
    }
  }
  log.scrollTop = log.scrollHeight;
  enable();
}

function showPending(talk) {
  if (state.current !== talk.key) return;
  $("log").querySelectorAll(".pending").forEach(element => element.remove());
  for (const line of talk.pending) {
    const element = messageElement(line, null);
    if (line.isFailed) {
      element.classList.add("failed");
      const again = make("button", "again", "Not confirmed. Send again");
      again.type = "button";
      again.addEventListener("click", () => {
        talk.pending = talk.pending.filter(other => other !== line);
        send(talk, line.text);
      });
      element.append(again);
    }
    $("log").append(element);
  }
  $("log").scrollTop = $("log").scrollHeight;
}

/** Takes a message of ours out of those that wait for the server. */
function confirm(talk, text) {
  const at = talk.pending.findIndex(line => line.text === text);
  if (at < 0) return;
  talk.pending.splice(at, 1);
  showPending(talk);
}

function showTalks() {
  const lists = { room: $("rooms"), person: $("people") };
  Object.values(lists).forEach(list => list.replaceChildren());
  let unread = 0;
  for (const talk of state.talks.values()) {
    const row = make("button", "row");
    row.type = "button";
    row.append(talk.kind === "room" ? make("span", "muted", "#") : avatar(talk.label), make("span", "label", talk.label));
    if (talk.unread) {
      row.append(make("span", "badge", talk.unread > 99 ? "99+" : String(talk.unread)));
      unread += talk.unread;
    }
    row.setAttribute("aria-current", String(talk.key === state.current));
    row.addEventListener("click", () => open(talk.key));
    const item = make("li");
    item.append(row);
    lists[talk.kind].append(item);
  }
  $("no-people").hidden = lists.person.childElementCount > 0;
  $("elsewhere").hidden = unread === 0;
}

function showMembers() {
  const talk = state.talks.get(state.current);
  const isRoom = talk?.kind === "room";
  const names = !talk ? [] : isRoom ? [...talk.members].sort((a, b) => a.localeCompare(b)) : [talk.label, state.name];
  $("count").textContent = isRoom && talk.isIn ? (talk.count === 1 ? "1 member" : talk.count + " members") : "";
  $("members").replaceChildren(...names.map(name => {
    const row = make("button", "row");
    row.type = "button";
    row.append(avatar(name), make("span", "label", name === state.name ? name + " (you)" : name));
    row.title = "Write to " + name;
    row.addEventListener("click", () => {
      talkOf(personKey(name), name, "person");
      open(personKey(name));
    });
    const item = make("li");
    item.append(row);
    return item;
  }));
  $("more-members").hidden = !isRoom || talk.count <= names.length;
  $("more-members").textContent = isRoom ? "and " + (talk.count - names.length) + " more" : "";
  $("leave").textContent = isRoom ? "Leave this room" : "Close this conversation";
  $("leave").hidden = !talk;
}

// The protocol

function tell(request) {
  if (state.socket?.readyState === WebSocket.OPEN) state.socket.send(JSON.stringify(request));
}

function send(talk, text) {
  talk.pending.push({ from: state.name, text, at: Date.now(), isMine: true, pending: true });
  showPending(talk);
  tell(talk.kind === "room" ? { type: "say", room: talk.label, text } : { type: "direct", to: talk.label, text });
}

function hearMessage(talk, message, isOld) {
  const isMine = message.from === state.name;
  if (isMine) confirm(talk, message.text);
  add(talk, { from: message.from, text: message.text, at: message.at, isMine }, !isMine && !isOld);
  if (talk.unread) showTalks();
}

const hear = {
  welcome(message) {
    state.name = message.name;
    state.isWelcome = true;
    state.attempts = 0;
    sessionStorage.setItem("name", message.name);
    $("me").textContent = message.name;
    $("my-avatar").replaceWith(Object.assign(avatar(message.name), { id: "my-avatar" }));
    $("door").hidden = true;
    $("chat").hidden = false;
    const rooms = [...state.talks.values()].filter(talk => talk.kind === "room").map(talk => talk.label);
    if (!rooms.length) rooms.push($("first-room").value.trim() || "lobby");
    rooms.forEach(room => tell({ type: "join", room }));
    tell({ type: "rooms" });
    showConnection();
  },
  entered(message) {
    const key = roomKey(message.room);
    const isKnown = state.talks.has(key);
    const talk = talkOf(key, message.room, "room");
    if (talk.since !== message.since) Object.assign(talk, { since: message.since, last: 0 });
    Object.assign(talk, { isIn: true, members: new Set(message.members), count: message.count, history: message.history });
    if (isKnown) notice(talk, "Connected again");
    else open(key);
    showTalks();
    if (state.current === key) showMembers();
    enable();
  },
  said(message) {
    const talk = state.talks.get(roomKey(message.room));
    if (!talk) return;
    const isOld = talk.history > 0;
    if (isOld) talk.history -= 1;
    // After a reconnection the history has messages that are here already.
    if (message.number <= talk.last) return;
    talk.last = message.number;
    hearMessage(talk, message, isOld);
  },
  direct(message) {
    const other = message.from === state.name ? message.to : message.from;
    const isNew = !state.talks.has(personKey(other));
    const talk = talkOf(personKey(other), other, "person");
    hearMessage(talk, message, false);
    if (isNew) showTalks();
  },
  joined(message) {
    change(message, talk => talk.members.add(message.name), message.name + " has joined");
  },
  left(message) {
    change(message, talk => talk.members.delete(message.name), message.name + " has left");
  },
  count(message) {
    change(message, () => {}, null);
  },
  parted(message) {
    close(roomKey(message.room));
  },
  rooms(message) {
    $("known-rooms").replaceChildren(...message.rooms.map(room => Object.assign(make("option"), { value: room.room })));
  },
  error(message) {
    if (!state.isWelcome) return refuse(message);
    const about = message.about ?? "";
    const talk = state.talks.get(roomKey(about)) ?? state.talks.get(personKey(about)) ?? state.talks.get(state.current);
    if (!talk) return banner(message.text, false);
    // The last message of ours that is not confirmed is the one that was refused.
    const refused = talk.pending.find(line => !line.isFailed);
    if (refused) refused.isFailed = true;
    notice(talk, message.text, true);
    showPending(talk);
  },
  goodbye(message) {
    state.farewell = "The server has said goodbye: " + message.text + ".";
  },
};

function change(message, apply, text) {
  const talk = state.talks.get(roomKey(message.room));
  if (!talk) return;
  apply(talk);
  talk.count = message.count;
  if (text) notice(talk, text);
  if (state.current === talk.key) showMembers();
}

/** The server does not give us the name. After a break the old session may still have it. */
function refuse(message) {
  if (state.name && message.code === "name-taken") {
    state.farewell = "Your name is still taken by your last connection.";
    return state.socket.close();
  }
  $("door-error").textContent = message.text;
  $("name").focus();
  $("name").select();
}

// The connection

function connect(name) {
  clearTimeout(state.timer);
  state.socket?.close();
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(scheme + "//" + location.host + "/ws");
  state.socket = socket;
  state.isWelcome = false;
  showConnection();
  socket.addEventListener("open", () => tell({ type: "name", name }));
  socket.addEventListener("message", event => {
    if (state.socket !== socket) return;
    const message = JSON.parse(event.data);
    if (Object.hasOwn(hear, message.type)) hear[message.type](message);
  });
  socket.addEventListener("close", event => {
    if (state.socket === socket) lost(event);
  });
}

function lost(event) {
  state.socket = null;
  state.isWelcome = false;
  if (!state.name) {
    // A name that was refused says more than the end of its connection.
    if ($("door-error").textContent) return;
    $("door-error").textContent = event.reason ? "The server says: " + event.reason : "The server does not answer. Try again.";
    return;
  }
  for (const talk of state.talks.values()) {
    talk.isIn = false;
    talk.history = 0;
    talk.pending.forEach(line => line.isFailed = true);
    showPending(talk);
  }
  const why = state.farewell ?? (event.reason ? "The server says: " + event.reason + "." : "The connection is broken.");
  state.farewell = null;
  const seconds = Math.min(30, 2 ** state.attempts) * (0.75 + Math.random() / 2);
  state.attempts += 1;
  banner(why + " Trying again in " + Math.max(1, Math.round(seconds)) + " s.", true);
  state.timer = setTimeout(() => connect(state.name), seconds * 1000);
  showConnection();
}

function banner(text, canRetry) {
  $("banner-text").textContent = text;
  $("retry").hidden = !canRetry;
  $("banner").hidden = false;
}

function showConnection() {
  $("status").textContent = state.isWelcome ? "connected" : "not connected";
  $("status").classList.toggle("on", state.isWelcome);
  if (state.isWelcome) $("banner").hidden = true;
  showMembers();
  enable();
}

function enable() {
  const talk = state.talks.get(state.current);
  $("write-form").querySelector("button").disabled = !state.isWelcome || !talk || (talk.kind === "room" && !talk.isIn);
}

// The page

function closePanes() {
  for (const [pane, button] of [["rooms-pane", "open-rooms"], ["members-pane", "open-members"]]) {
    $(pane).classList.remove("open");
    $(button).setAttribute("aria-expanded", "false");
  }
  $("shade").hidden = true;
}

for (const [pane, button] of [["rooms-pane", "open-rooms"], ["members-pane", "open-members"]]) {
  $(button).addEventListener("click", () => {
    closePanes();
    $(pane).classList.add("open");
    $(button).setAttribute("aria-expanded", "true");
    $("shade").hidden = false;
    $(pane).querySelector("button, input")?.focus();
  });
}
$("shade").addEventListener("click", closePanes);
addEventListener("keydown", event => { if (event.key === "Escape") closePanes(); });

$("door-form").addEventListener("submit", event => {
  event.preventDefault();
  $("door-error").textContent = "";
  const name = $("name").value.trim();
  // A connection whose name was refused may ask for another one.
  if (state.socket?.readyState === WebSocket.OPEN) tell({ type: "name", name });
  else connect(name);
});

$("join-form").addEventListener("submit", event => {
  event.preventDefault();
  const room = $("join-room").value.trim();
  $("join-room").value = "";
  if (!room) return;
  if (state.talks.has(roomKey(room))) open(roomKey(room));
  else tell({ type: "join", room });
});
$("join-room").addEventListener("focus", () => tell({ type: "rooms" }));

$("write-form").addEventListener("submit", event => {
  event.preventDefault();
  const talk = state.talks.get(state.current);
  const text = $("text").value.trim();
  if (!talk || !text || $("write-form").querySelector("button").disabled) return;
  $("text").value = "";
  grow();
  send(talk, text);
});
$("text").addEventListener("keydown", event => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("write-form").requestSubmit();
});
function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = text.scrollHeight + 2 + "px";
}
$("text").addEventListener("input", grow);

$("leave").addEventListener("click", () => {
  const talk = state.talks.get(state.current);
  if (talk?.kind === "room" && talk.isIn) tell({ type: "leave", room: talk.label });
  else if (talk) close(talk.key);
});
$("retry").addEventListener("click", () => connect(state.name));
$("newer").addEventListener("click", () => { $("log").scrollTop = $("log").scrollHeight; });
$("log").addEventListener("scroll", () => {
  const log = $("log");
  if (log.scrollHeight - log.scrollTop - log.clientHeight < 60) $("newer").hidden = true;
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) document.title = "Sinew chat"; });

$("name").value = sessionStorage.getItem("name") ?? "";
// A link to a room: http://host/#tea
if (location.hash.length > 1) $("first-room").value = location.hash.slice(1);
