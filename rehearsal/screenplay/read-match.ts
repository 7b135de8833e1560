// Reads `match` of a scenario and `when` of a reply: patterns, steps, tools, wire.
import { findModel, MODELS } from '../models.ts';
import { WIRE_NAMES } from '../normalized-request.ts';
import { formatSuggestion } from './did-you-mean.ts';
import { type CaptureGroups, listGroupNames } from './template.ts';
import type { MatchConditions, Pattern } from './types.ts';
import type { YamlEntry, YamlReader } from './yaml-reader.ts';

const MATCH_KEYS = [
  'agent',
  'goal',
  'system',
  'model',
  'step',
  'last_user',
  'user_text',
  'last_result',
  'has_tool',
  'wire',
] as const;

const REGEX_LITERAL = /^\/(.+)\/([a-z]*)$/s;

export function normalizeToolName(name: string): string {
  return name.replaceAll('.', '_');
}

/** `/like this/i` is a regular expression; any other text must be equal. */
function readPattern(reader: YamlReader, entry: YamlEntry, name: string): Pattern | undefined {
  const text = reader.readString(entry, name);
  if (text === undefined) return undefined;
  const literal = REGEX_LITERAL.exec(text);
  if (!literal) return { kind: 'equal', value: text };
  const [, source = '', flags = ''] = literal;
  if (/[gy]/.test(flags)) {
    reader.report(
      entry.offset,
      `${name} cannot have the flags g or y: they keep state between matches`,
    );
    return undefined;
  }
  try {
    return { kind: 'regex', regex: new RegExp(source, flags) };
  } catch (error) {
    reader.report(entry.offset, `${name} is not a valid regular expression: ${String(error)}`);
    return undefined;
  }
}

function readPatterns(reader: YamlReader, entry: YamlEntry, name: string): Pattern[] {
  return reader
    .readListOrSingle(entry, name)
    .flatMap((item) => readPattern(reader, item, name) ?? []);
}

function readModels(reader: YamlReader, entry: YamlEntry): Pattern[] {
  const patterns = readPatterns(reader, entry, 'model');
  const ids = MODELS.map((model) => model.id);
  for (const pattern of patterns) {
    if (pattern.kind === 'equal' && !findModel(pattern.value)) {
      const hint = formatSuggestion(pattern.value, ids);
      reader.report(entry.offset, `unknown model "${pattern.value}"; ${hint}`);
    }
  }
  return patterns;
}

export function readMatch(reader: YamlReader, entry: YamlEntry, name: string): MatchConditions {
  const fields = reader.readFields(entry, name, MATCH_KEYS);
  const match: { -readonly [K in keyof MatchConditions]: MatchConditions[K] } = {};
  for (const [key, value] of fields) {
    switch (key) {
      case 'agent':
        match.agent = readPatterns(reader, value, 'agent');
        break;
      case 'model':
        match.model = readModels(reader, value);
        break;
      case 'goal':
      case 'last_user':
      case 'last_result': {
        const pattern = readPattern(reader, value, key);
        const field =
          key === 'goal' ? 'goal' : key === 'last_user' ? 'lastUser' : ('lastResult' as const);
        if (pattern) match[field] = pattern;
        break;
      }
      case 'system': {
        const pattern = readPattern(reader, value, key);
        if (pattern) match.system = pattern;
        break;
      }
      case 'user_text': {
        const pattern = readPattern(reader, value, key);
        if (pattern) match.userText = pattern;
        break;
      }
      case 'step':
        match.step = reader
          .readListOrSingle(value, 'step')
          .flatMap((item) => reader.readInteger(item, 'step', { min: 1, max: 100_000 }) ?? []);
        break;
      case 'has_tool':
        match.hasTool = reader
          .readListOrSingle(value, 'has_tool')
          .flatMap((item) => reader.readString(item, 'has_tool') ?? [])
          .map(normalizeToolName);
        break;
      case 'wire': {
        const wire = reader.readChoice(value, 'wire', WIRE_NAMES);
        if (wire) match.wire = wire;
        break;
      }
    }
  }
  return match;
}

const listPatternGroups = (pattern: Pattern | undefined) =>
  listGroupNames(pattern?.kind === 'regex' ? pattern.regex : undefined);

/** Lists the groups that templates may quote: patterns in `when` override those in `match`. */
export function collectGroups(
  match: MatchConditions,
  when: MatchConditions | undefined,
): CaptureGroups {
  return {
    goal: listPatternGroups(when?.goal ?? match.goal),
    last_user: listPatternGroups(when?.lastUser ?? match.lastUser),
    last_result: listPatternGroups(when?.lastResult ?? match.lastResult),
  };
}
