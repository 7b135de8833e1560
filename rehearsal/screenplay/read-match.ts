// Reads the `match` of a play and the `when` of an answer: patterns, steps, tools, wire.
import { findModel, MODELS } from '../models.ts';
import { didYouMean } from './nearest.ts';
import { type Groups, listGroups } from './template.ts';
import type { Match, Pattern } from './types.ts';
import type { Spot, YamlReader } from './yaml-reader.ts';

const MATCH_KEYS = [
  'agent',
  'goal',
  'model',
  'step',
  'last_user',
  'last_result',
  'has_tool',
  'wire',
] as const;

const WRITTEN_REGEX = /^\/(.+)\/([a-z]*)$/s;

export function normalizeToolName(name: string): string {
  return name.replaceAll('.', '_');
}

/** `/like this/i` is a regular expression; anything else must be equal. */
function readPattern(reader: YamlReader, spot: Spot, what: string): Pattern | undefined {
  const text = reader.readText(spot, what);
  if (text === undefined) return undefined;
  const written = WRITTEN_REGEX.exec(text);
  if (!written) return { kind: 'equal', value: text };
  const [, source = '', flags = ''] = written;
  if (/[gy]/.test(flags)) {
    reader.report(spot.offset, `${what} cannot have the flags g or y: they would remember`);
    return undefined;
  }
  try {
    return { kind: 'regex', regex: new RegExp(source, flags) };
  } catch (error) {
    reader.report(spot.offset, `${what} is not a valid regular expression: ${String(error)}`);
    return undefined;
  }
}

function readPatterns(reader: YamlReader, spot: Spot, what: string): Pattern[] {
  return reader.readOneOrMore(spot, what).flatMap((item) => readPattern(reader, item, what) ?? []);
}

function readModels(reader: YamlReader, spot: Spot): Pattern[] {
  const patterns = readPatterns(reader, spot, 'model');
  const ids = MODELS.map((model) => model.id);
  for (const pattern of patterns) {
    if (pattern.kind === 'equal' && !findModel(pattern.value)) {
      const hint = didYouMean(pattern.value, ids);
      reader.report(spot.offset, `no model is called "${pattern.value}"; ${hint}`);
    }
  }
  return patterns;
}

export function readMatch(reader: YamlReader, spot: Spot, what: string): Match {
  const fields = reader.readFields(spot, what, MATCH_KEYS);
  const match: { -readonly [K in keyof Match]: Match[K] } = {};
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
      case 'step':
        match.step = reader
          .readOneOrMore(value, 'step')
          .flatMap((item) => reader.readInteger(item, 'step', { min: 1, max: 100_000 }) ?? []);
        break;
      case 'has_tool':
        match.hasTool = reader
          .readOneOrMore(value, 'has_tool')
          .flatMap((item) => reader.readText(item, 'has_tool') ?? [])
          .map(normalizeToolName);
        break;
      case 'wire': {
        const wire = reader.readOneOf(value, 'wire', ['openai', 'anthropic'] as const);
        if (wire) match.wire = wire;
        break;
      }
    }
  }
  return match;
}

const groupsOf = (pattern: Pattern | undefined) =>
  listGroups(pattern?.kind === 'regex' ? pattern.regex : undefined);

/** What templates may quote: an answer's own patterns stand before those of its play. */
export function groupsOfMatch(match: Match, when: Match | undefined): Groups {
  return {
    goal: groupsOf(when?.goal ?? match.goal),
    last_user: groupsOf(when?.lastUser ?? match.lastUser),
    last_result: groupsOf(when?.lastResult ?? match.lastResult),
  };
}
