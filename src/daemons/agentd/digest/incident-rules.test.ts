// Incidents: which events are some, in which words, and how equal ones become one.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EVENT_KINDS } from '../../../wire/events.ts';
import { INCIDENT_KINDS, type KindEvents, listIncidents } from './incident-rules.ts';

let seq = 100;
const event = (kind: string, more: object = {}) => ({
  id: `e${seq}`,
  seq: seq--,
  ts: '2026-03-01T09:00:00Z',
  event: kind,
  source: 'x',
  source_store: 'x',
  source_seq: 1,
  ...more,
});
const found = (kind: string, ...events: object[]) =>
  ({ kind, events: events.map((more) => event(kind, more)), more: false }) as KindEvents;
const texts = (...all: KindEvents[]) => listIncidents(all).map(({ text }) => text);

describe('incidents', () => {
  it('are of kinds that there are', () => {
    for (const kind of INCIDENT_KINDS) assert.ok(EVENT_KINDS.includes(kind));
    assert.equal(new Set(INCIDENT_KINDS).size, INCIDENT_KINDS.length);
  });

  it('equal ones are one, with its last event; the gravest are first, then the most frequent', () => {
    const denied = found(
      'tool.call.denied',
      { agent: 'ops', tool: 'shell.exec' },
      { agent: 'coder', tool: 'git.push' },
      { agent: 'coder', tool: 'git.push' },
    );
    const halted = found('halt.set', { data: { reason: 'it sends mail' } });
    const incidents = listIncidents([denied, halted]);
    assert.deepEqual(
      incidents.map(({ text, count }) => [text, count]),
      [
        ['the runtime was halted: it sends mail', 1],
        ['coder was denied git.push', 2],
        ['ops was denied shell.exec', 1],
      ],
    );
    assert.equal(incidents[1]!.last_seq, denied.events[1]!.seq);
  });

  it('a denied connection counts the equal ones before it', () => {
    const data = { host: 'example.org', port: 443, repeats: 4 };
    const [one] = listIncidents([found('network.denied', { agent: 'coder', data })]);
    assert.deepEqual([one!.text, one!.count], ['coder was denied example.org:443', 5]);
  });

  it('leaves out ordinary starts, and approvals that nobody was asked for any more', () => {
    assert.deepEqual(
      texts(
        found('runtime.started', { data: { version: 'x' } }),
        found('approval.expired', { agent: 'coder', status: 'canceled' }),
      ),
      [],
    );
    assert.deepEqual(
      texts(
        found('runtime.started', { data: { restarts: 1, after: 'signal 9' } }),
        found('approval.expired', { agent: 'coder', tool: 'git.push', status: 'expired' }),
      ),
      [
        'the runtime was restarted after signal 9',
        'a request of coder for git.push expired unanswered',
      ],
    );
  });

  it('names people where no agent acted', () => {
    const denied = { principal: 'person:ann', status: 'approval.decide' };
    assert.deepEqual(texts(found('policy.denied', denied)), [
      'person:ann was denied approval.decide',
    ]);
  });
});
