'use strict';
// The tables are small enough to be in the page: paths of pairs, and pairs of a link.
(() => {
  const data = JSON.parse(document.getElementById('tables').textContent);
  const bytes = Uint8Array.from(atob(data.lft), (c) => c.charCodeAt(0));
  const {switches, ports, hosts} = data; // ports[s]: port -> [switch, its port]; hosts: [name, switch, port, lid]
  const next = (lid, s) => bytes[lid * switches.length + s];
  const byId = (id) => document.getElementById(id);
  const walk = (from, to) => {
    const path = [];
    let [, at, port] = from;
    for (let hop = 0; hop <= switches.length; hop++) {
      const out = next(to[3], at);
      path.push([at, port, out]);
      if (at === to[1] && out === to[2]) return path;
      const peer = ports[at][out];
      if (!peer) return null;
      [at, port] = peer;
    }
    return null;
  };
  const find = (input) => hosts.find((host) => host[0] === input.value);
  const put = (output, lines) => {
    output.replaceChildren(...lines.map((line) => Object.assign(document.createElement('div'), {textContent: line})));
  };
  const pair = byId('pair');
  pair.addEventListener('submit', (event) => {
    event.preventDefault();
    const [from, to] = [find(byId('from')), find(byId('to'))];
    if (!from || !to || from === to) return put(byId('path'), ['Choose two different adapters of the list.']);
    const path = walk(from, to);
    put(byId('path'), path
      ? [`${from[0]} to ${to[0]} (LID ${to[3]}), ${path.length - 1} links between switches:`,
        ...path.map(([s, a, b], i) => `${i + 1}. ${switches[s]}: in by port ${a}, out by port ${b}`)]
      : ['It does not arrive.']);
  });
  const link = byId('link');
  link.addEventListener('submit', (event) => {
    event.preventDefault();
    const s = switches.indexOf(byId('switch').value);
    const port = Number(byId('port').value);
    if (s < 0 || !ports[s][port]) return put(byId('users'), ['Choose a switch of the list and a port with a link to a switch.']);
    const senders = [], pairs = [];
    let count = 0;
    for (const to of hosts) {
      if (next(to[3], s) !== port || (s === to[1] && port === to[2])) continue;
      for (const from of hosts) {
        if (from === to) continue;
        const path = walk(from, to);
        if (path && path.some(([at, , out]) => at === s && out === port)) {
          count++;
          senders.push(from[0]);
          if (pairs.length < 50) pairs.push(`${from[0]} to ${to[0]}`);
        }
      }
    }
    const [peer, far] = ports[s][port];
    put(byId('users'), [`${switches[s]} port ${port} to ${switches[peer]} port ${far}: ${count} pairs of ${new Set(senders).size} senders.`, ...pairs, ...(count > pairs.length ? ['and more'] : [])]);
  });
  document.querySelectorAll('.script').forEach((part) => { part.hidden = false; });
})();
