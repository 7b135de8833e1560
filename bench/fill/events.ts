// Copies the events of ended tasks in the audit log and its index.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { auditdConfig } from '../../src/daemons/auditd-ai/config.ts';
import { openLog } from '../../src/daemons/auditd-ai/log/log.ts';
import { openIndex } from '../../src/daemons/auditd-ai/store/store.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { silentLog } from '../../src/platform/log.ts';
import type { AuditEvent, NewEvent } from '../../src/wire/events.ts';
import { type Copy, type CopyTemplate, findIds, makeTextTemplate } from './template.ts';

export type LastEvent = { seq: number; text: string };
export type EventCopier = {
  /** The ids in the events of tasks. */
  ids: string[];
  add(copy: Copy): Promise<void>;
  /** Returns the last event of each source. */
  finish(): Promise<Map<string, LastEvent>>;
};

type EventTemplate = {
  source: string;
  timeMs: number;
  /** The text after time and number. */
  rest: CopyTemplate<string>;
  /** Has the fields that the index reads. */
  indexed: NewEvent;
  id: CopyTemplate<string>;
};

const BATCH_EVENTS = 20_000;
/** Between the numbers that a daemon may have used before it stopped, and those of the copies. */
const NUMBERS_LEFT_OUT = 1_000_000;

/** Which events are copied: by default all of tasks. Without an index, it is left as it is. */
export type EventChoice = { isWanted?: (ids: readonly string[]) => boolean; hasIndex?: boolean };

export async function openEvents(
  stateDir: string,
  { isWanted = () => true, hasIndex = true }: EventChoice = {},
): Promise<EventCopier> {
  const config = auditdConfig.parse({});
  const dir = join(stateDir, 'audit');
  const log = await openLog({
    dir,
    origin: config.origin,
    clock: systemClock(),
    segmentBytesMax: config.segment_bytes_max,
    checkpointEveryMs: config.checkpoint_every_ms,
  });
  const file = join(stateDir, 'auditd-ai.sqlite');
  const index = hasIndex ? await openIndex({ file, log, logger: silentLog }) : undefined;
  const lines = readFileSync(join(dir, 'audit.jsonl'), 'utf8').trimEnd().split('\n');
  const found = lines.map((line) => ({ line, event: JSON.parse(line) as AuditEvent }));
  const wanted = found.filter(
    ({ line, event }) => event.task_id !== undefined && isWanted(findIds(line)),
  );
  const templates = wanted.map(({ event }) => makeEventTemplate(event));
  const last = new Map<string, LastEvent>();
  for (const { event, line } of found)
    last.set(event.source, { seq: event.source_seq + NUMBERS_LEFT_OUT, text: line });

  let texts: string[] = [];
  let events: NewEvent[] = [];
  const flush = async () => {
    const { firstSeq } = await log.append(texts);
    index?.add(firstSeq, events);
    texts = [];
    events = [];
  };
  return {
    ids: wanted.flatMap(({ line }) => findIds(line)),
    async add(copy) {
      for (const template of templates) {
        const seq = last.get(template.source)!.seq + 1;
        const ts = new Date(template.timeMs + copy.shiftMs).toISOString();
        const text = `{"ts":"${ts}","source_seq":${seq},${template.rest(copy)}`;
        last.set(template.source, { seq, text });
        texts.push(text);
        events.push(copyIndexed(template, copy, seq));
      }
      if (texts.length >= BATCH_EVENTS) await flush();
    },
    async finish() {
      if (texts.length > 0) await flush();
      await log.signNow();
      await index?.close();
      await log.close();
      return last;
    },
  };
}

function makeEventTemplate(event: AuditEvent): EventTemplate {
  const { seq: _, ts, source_seq, ...rest } = event;
  return {
    source: event.source,
    timeMs: Date.parse(ts),
    rest: makeTextTemplate(JSON.stringify(rest).slice(1)),
    indexed: { ...rest, ts, source_seq },
    id: makeTextTemplate(event.id),
  };
}

/** The fields that the index reads. */
function copyIndexed({ indexed, id }: EventTemplate, copy: Copy, seq: number): NewEvent {
  const { ids } = copy;
  const replace = <T extends string | undefined>(value: T) =>
    value === undefined ? value : (ids.get(value) ?? value);
  const { event, source, source_store, ts, agent, tool } = indexed;
  const task_id = replace(indexed.task_id);
  const root_task_id = replace(indexed.root_task_id);
  const run_id = replace(indexed.run_id);
  const own = { id: id(copy), source_seq: seq, task_id, root_task_id, run_id };
  return { event, source, source_store, ts, agent, tool, ...own } as NewEvent;
}
