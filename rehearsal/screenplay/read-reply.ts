// Reads one entry of `answers`: text, calls, delay, error and defect of a scripted reply.
import { collectGroups, normalizeToolName, readMatch } from './read-match.ts';
import { type CaptureGroups, compileTemplate, compileValue, type Template } from './template.ts';
import {
  DEFECT_KINDS,
  type ErrorTemplate,
  type MatchConditions,
  type NumberTemplate,
  type ScriptedCall,
  type ScriptedReply,
  STOP_REASONS,
  USAGE_KEYS,
  type UsageOverride,
} from './types.ts';
import type { YamlEntry, YamlReader } from './yaml-reader.ts';

const REPLY_KEYS = [
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

/** Reads the fields of one reply, whose templates may quote the given groups. */
class ReplyReader {
  readonly reader: YamlReader;
  readonly groups: CaptureGroups;

  constructor(reader: YamlReader, groups: CaptureGroups) {
    this.reader = reader;
    this.groups = groups;
  }

  readTemplate(entry: YamlEntry, name: string): Template | undefined {
    const text = this.reader.readString(entry, name);
    if (text === undefined) return undefined;
    const { value, problems } = compileTemplate(text, this.groups);
    for (const problem of problems) this.reader.report(entry.offset, `${name}: ${problem}`);
    return value;
  }

  readNumber(entry: YamlEntry, name: string, max: number): NumberTemplate | undefined {
    if (this.reader.isString(entry)) return this.readTemplate(entry, name);
    return this.reader.readInteger(entry, name, { min: 0, max });
  }

  readCall(entry: YamlEntry): ScriptedCall | undefined {
    const fields = this.reader.readFields(entry, 'a call', ['tool', 'arguments']);
    const toolEntry = fields.get('tool');
    if (!toolEntry) {
      this.reader.report(entry.offset, 'a call needs "tool"');
      return undefined;
    }
    const tool = this.reader.readString(toolEntry, 'tool');
    const argumentsEntry = fields.get('arguments');
    const rawArguments = argumentsEntry ? this.reader.readPlainValue(argumentsEntry) : {};
    if (
      argumentsEntry &&
      (rawArguments === null || typeof rawArguments !== 'object' || Array.isArray(rawArguments))
    ) {
      this.reader.report(argumentsEntry.offset, 'arguments must be a mapping');
    }
    const { value, problems } = compileValue(rawArguments, this.groups);
    const offset = argumentsEntry?.offset ?? entry.offset;
    for (const problem of problems) this.reader.report(offset, `arguments: ${problem}`);
    return tool === undefined ? undefined : { tool: normalizeToolName(tool), arguments: value };
  }

  readError(entry: YamlEntry): ErrorTemplate | undefined {
    const fields = this.reader.readFields(entry, 'error', ERROR_KEYS);
    const get = (key: (typeof ERROR_KEYS)[number]) => fields.get(key);
    for (const key of ['status', 'message'] as const) {
      if (!get(key)) this.reader.report(entry.offset, `error needs "${key}"`);
    }
    const readOptionalString = (key: 'type' | 'code') => {
      const field = get(key);
      return field && this.reader.readString(field, key);
    };
    const [status, message, retryAfter, times] = [
      get('status') && this.readNumber(get('status')!, 'status', 599),
      get('message') && this.readTemplate(get('message')!, 'message'),
      get('retry_after') && this.readNumber(get('retry_after')!, 'retry_after', 86_400),
      get('times') && this.readNumber(get('times')!, 'times', 1_000),
    ];
    if (typeof status === 'number' && status < 400) {
      this.reader.report(entry.offset, 'status of an error must be from 400 to 599');
    }
    if (status === undefined || message === undefined) return undefined;
    const [type, code, inStream] = [
      readOptionalString('type'),
      readOptionalString('code'),
      get('in_stream'),
    ];
    return {
      status,
      message,
      isInStream: inStream ? this.reader.readBoolean(inStream, 'in_stream') : false,
      ...(type === undefined ? {} : { type }),
      ...(code === undefined ? {} : { code }),
      ...(retryAfter === undefined ? {} : { retryAfterSeconds: retryAfter }),
      ...(times === undefined ? {} : { times }),
    };
  }

  readUsage(entry: YamlEntry): UsageOverride {
    const usage: Record<string, number> = {};
    for (const [key, value] of this.reader.readFields(entry, 'usage', USAGE_KEYS)) {
      const count = this.reader.readInteger(value, key, { min: 0, max: 1_000_000_000 });
      if (count !== undefined) usage[key] = count;
    }
    return usage;
  }

  readTimes(entry: YamlEntry): NumberTemplate | 'forever' | undefined {
    const isForever =
      this.reader.isString(entry) && this.reader.readPlainValue(entry) === 'forever';
    return isForever ? 'forever' : this.readNumber(entry, 'times', 1_000_000);
  }
}

export function readReply(
  reader: YamlReader,
  entry: YamlEntry,
  match: MatchConditions,
): ScriptedReply {
  const fields = reader.readFields(entry, 'an answer', REPLY_KEYS);
  const whenEntry = fields.get('when');
  const when = whenEntry && readMatch(reader, whenEntry, 'when');
  const replyReader = new ReplyReader(reader, collectGroups(match, when));
  const readOptional = <T>(
    key: (typeof REPLY_KEYS)[number],
    readField: (field: YamlEntry) => T,
  ): T | undefined => {
    const field = fields.get(key);
    return field && readField(field);
  };
  if (!['text', 'calls', 'error', 'broken', 'thinking'].some((key) => fields.has(key))) {
    reader.report(entry.offset, 'an answer needs one of: text, calls, error, broken, thinking');
  }
  const optional = {
    when,
    text: readOptional('text', (field) => replyReader.readTemplate(field, 'text')),
    thinking: readOptional('thinking', (field) => replyReader.readTemplate(field, 'thinking')),
    error: readOptional('error', (field) => replyReader.readError(field)),
    defect: readOptional('broken', (field) => reader.readChoice(field, 'broken', DEFECT_KINDS)),
    stopReason: readOptional('stop_reason', (field) =>
      reader.readChoice(field, 'stop_reason', STOP_REASONS),
    ),
    usage: readOptional('usage', (field) => replyReader.readUsage(field)),
  };
  const reply = {
    times: readOptional('times', (field) => replyReader.readTimes(field)) ?? 1,
    calls: readOptional('calls', (field) =>
      reader.readList(field, 'calls').flatMap((item) => replyReader.readCall(item) ?? []),
    ),
    delayMs:
      readOptional('delay_ms', (field) => replyReader.readNumber(field, 'delay_ms', 600_000)) ?? 0,
  };
  const present = Object.fromEntries(
    Object.entries(optional).filter(([, value]) => value !== undefined),
  );
  return { ...reply, calls: reply.calls ?? [], ...present };
}
