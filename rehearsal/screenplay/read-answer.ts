// Reads one answer of a play: texts, calls, delays, errors and what is to be broken about it.
import { groupsOfMatch, normalizeToolName, readMatch } from './read-match.ts';
import { compileTemplate, compileValue, type Groups, type Template } from './template.ts';
import {
  type Amount,
  type Answer,
  BROKEN_KINDS,
  type Call,
  type ErrorAnswer,
  type Match,
  STOP_REASONS,
  USAGE_KEYS,
  type UsageOverride,
} from './types.ts';
import type { Spot, YamlReader } from './yaml-reader.ts';

const ANSWER_KEYS = [
  'text',
  'thinking',
  'calls',
  'when',
  'times',
  'delay_ms',
  'error',
  'broken',
  'stop_reason',
  'usage',
] as const;
const ERROR_KEYS = [
  'status',
  'type',
  'code',
  'message',
  'retry_after',
  'times',
  'in_stream',
] as const;

/** Reads the parts of one answer with the groups its templates may quote. */
class AnswerReader {
  readonly reader: YamlReader;
  readonly groups: Groups;

  constructor(reader: YamlReader, groups: Groups) {
    this.reader = reader;
    this.groups = groups;
  }

  template(spot: Spot, what: string): Template | undefined {
    const text = this.reader.readText(spot, what);
    if (text === undefined) return undefined;
    const { value, problems } = compileTemplate(text, this.groups);
    for (const problem of problems) this.reader.report(spot.offset, `${what}: ${problem}`);
    return value;
  }

  amount(spot: Spot, what: string, max: number): Amount | undefined {
    if (this.reader.isText(spot)) return this.template(spot, what);
    return this.reader.readInteger(spot, what, { min: 0, max });
  }

  call(spot: Spot): Call | undefined {
    const fields = this.reader.readFields(spot, 'a call', ['tool', 'arguments']);
    const toolSpot = fields.get('tool');
    if (!toolSpot) {
      this.reader.report(spot.offset, 'a call needs "tool"');
      return undefined;
    }
    const tool = this.reader.readText(toolSpot, 'tool');
    const argumentsSpot = fields.get('arguments');
    const free = argumentsSpot ? this.reader.readFree(argumentsSpot) : {};
    if (argumentsSpot && (free === null || typeof free !== 'object' || Array.isArray(free))) {
      this.reader.report(argumentsSpot.offset, 'arguments must be a mapping');
    }
    const { value, problems } = compileValue(free, this.groups);
    const offset = argumentsSpot?.offset ?? spot.offset;
    for (const problem of problems) this.reader.report(offset, `arguments: ${problem}`);
    return tool === undefined ? undefined : { tool: normalizeToolName(tool), arguments: value };
  }

  error(spot: Spot): ErrorAnswer | undefined {
    const fields = this.reader.readFields(spot, 'error', ERROR_KEYS);
    const get = (key: (typeof ERROR_KEYS)[number]) => fields.get(key);
    for (const key of ['status', 'message'] as const) {
      if (!get(key)) this.reader.report(spot.offset, `error needs "${key}"`);
    }
    const text = (key: 'type' | 'code') => {
      const at = get(key);
      return at && this.reader.readText(at, key);
    };
    const [status, message, retryAfter, times] = [
      get('status') && this.amount(get('status')!, 'status', 599),
      get('message') && this.template(get('message')!, 'message'),
      get('retry_after') && this.amount(get('retry_after')!, 'retry_after', 86_400),
      get('times') && this.amount(get('times')!, 'times', 1_000),
    ];
    if (typeof status === 'number' && status < 400) {
      this.reader.report(spot.offset, 'status of an error must be from 400 to 599');
    }
    if (status === undefined || message === undefined) return undefined;
    const [type, code, inStream] = [text('type'), text('code'), get('in_stream')];
    return {
      status,
      message,
      inStream: inStream ? this.reader.readTrue(inStream, 'in_stream') : false,
      ...(type === undefined ? {} : { type }),
      ...(code === undefined ? {} : { code }),
      ...(retryAfter === undefined ? {} : { retryAfterSeconds: retryAfter }),
      ...(times === undefined ? {} : { times }),
    };
  }

  usage(spot: Spot): UsageOverride {
    const usage: Record<string, number> = {};
    for (const [key, value] of this.reader.readFields(spot, 'usage', USAGE_KEYS)) {
      const count = this.reader.readInteger(value, key, { min: 0, max: 1_000_000_000 });
      if (count !== undefined) usage[key] = count;
    }
    return usage;
  }

  times(spot: Spot): Amount | 'forever' | undefined {
    const isForever = this.reader.isText(spot) && this.reader.readFree(spot) === 'forever';
    return isForever ? 'forever' : this.amount(spot, 'times', 1_000_000);
  }
}

export function readAnswer(reader: YamlReader, spot: Spot, match: Match): Answer {
  const fields = reader.readFields(spot, 'an answer', ANSWER_KEYS);
  const whenSpot = fields.get('when');
  const when = whenSpot && readMatch(reader, whenSpot, 'when');
  const part = new AnswerReader(reader, groupsOfMatch(match, when));
  const read = <T>(key: (typeof ANSWER_KEYS)[number], how: (at: Spot) => T): T | undefined => {
    const at = fields.get(key);
    return at && how(at);
  };
  if (!['text', 'calls', 'error', 'broken', 'thinking'].some((key) => fields.has(key))) {
    reader.report(spot.offset, 'an answer needs one of: text, calls, error, broken, thinking');
  }
  const optional = {
    when,
    text: read('text', (at) => part.template(at, 'text')),
    thinking: read('thinking', (at) => part.template(at, 'thinking')),
    error: read('error', (at) => part.error(at)),
    broken: read('broken', (at) => reader.readOneOf(at, 'broken', BROKEN_KINDS)),
    stopReason: read('stop_reason', (at) => reader.readOneOf(at, 'stop_reason', STOP_REASONS)),
    usage: read('usage', (at) => part.usage(at)),
  };
  const answer = {
    times: read('times', (at) => part.times(at)) ?? 1,
    calls: read('calls', (at) =>
      reader.readList(at, 'calls').flatMap((item) => part.call(item) ?? []),
    ),
    delayMs: read('delay_ms', (at) => part.amount(at, 'delay_ms', 600_000)) ?? 0,
  };
  const given = Object.fromEntries(
    Object.entries(optional).filter(([, value]) => value !== undefined),
  );
  return { ...answer, calls: answer.calls ?? [], ...given };
}
