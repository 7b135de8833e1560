// Templates of a screenplay: `{{name|filter:argument}}` in any text. Compiled once when the
// screenplay is read, where unknown names are refused; filling one in is then only joining strings.
import { cutText } from '../cut-text.ts';
import { readWords, type Scene } from '../scene.ts';
import { didYouMean } from './nearest.ts';

/** The scene together with what the patterns of the chosen play have captured. */
export type Cast = {
  readonly scene: Scene;
  readonly goalMatch: RegExpExecArray | null;
  readonly lastUserMatch: RegExpExecArray | null;
  readonly lastResultMatch: RegExpExecArray | null;
};

type Read = (cast: Cast) => string;
type Filter = (text: string) => string;
type Slot = { readonly read: Read; readonly filters: readonly Filter[] };
export type Template = { readonly parts: readonly (string | Slot)[]; readonly isNumber: boolean };

export type ValueTemplate =
  | { readonly kind: 'literal'; readonly value: unknown }
  | { readonly kind: 'template'; readonly template: Template }
  | { readonly kind: 'list'; readonly items: readonly ValueTemplate[] }
  | { readonly kind: 'object'; readonly entries: readonly (readonly [string, ValueTemplate])[] };

/** The capturing groups a template may name, per pattern. */
export type Groups = {
  readonly goal: ReadonlySet<string>;
  readonly last_user: ReadonlySet<string>;
  readonly last_result: ReadonlySet<string>;
};

export type Compiled<T> = { readonly value: T; readonly problems: readonly string[] };

const PLAIN: Record<string, Read> = {
  agent: (cast) => cast.scene.agent,
  goal: (cast) => cast.scene.goal,
  model: (cast) => cast.scene.model,
  step: (cast) => String(cast.scene.step),
  last_user: (cast) => cast.scene.lastUser,
  last_result: (cast) => readWords(cast.scene.results.at(-1)?.text ?? ''),
  results: (cast) => cast.scene.results.map((result) => readWords(result.text)).join('\n'),
};
const NAMES = [...Object.keys(PLAIN), 'result.N', 'tool.NAME', 'goal.GROUP', 'last_user.GROUP'];
const FILTERS = ['short', 'or', 'number'];

function makeFilter(name: string, argument: string | undefined): Filter | string {
  switch (name) {
    case 'short': {
      const charsMax = argument === undefined ? 160 : Number(argument);
      if (!Number.isInteger(charsMax) || charsMax < 1)
        return `short needs a length, as in short:80`;
      return (text) => (text.length > charsMax ? `${cutText(text, charsMax).trimEnd()}…` : text);
    }
    case 'or':
      if (argument === undefined) return 'or needs the text to use instead, as in or:nothing';
      return (text) => (text === '' ? argument : text);
    case 'number':
      return (text) => text;
    default:
      return `no filter is called "${name}"; ${didYouMean(name, FILTERS)}`;
  }
}

function makeRead(path: string, groups: Groups): Read | string {
  const plain = PLAIN[path];
  if (plain) return plain;
  const dot = path.indexOf('.');
  const head = dot < 0 ? path : path.slice(0, dot);
  const rest = dot < 0 ? '' : path.slice(dot + 1);
  if (head === 'result' && /^[1-9]\d?$/.test(rest)) {
    return (cast) => readWords(cast.scene.results[Number(rest) - 1]?.text ?? '');
  }
  if (head === 'tool' && rest !== '') {
    const name = rest.replaceAll('.', '_');
    return (cast) =>
      readWords(cast.scene.allResults.findLast((result) => result.tool === name)?.text ?? '');
  }
  if (head === 'goal' || head === 'last_user' || head === 'last_result') {
    if (!groups[head].has(rest)) {
      return `the pattern of ${head} captures no group "${rest}"; name it (?<${rest}>…) there`;
    }
    return (cast) => readGroup(matchOf(cast, head), rest);
  }
  return `no value is called "${path}"; ${didYouMean(path, NAMES)}`;
}

function matchOf(cast: Cast, head: keyof Groups): RegExpExecArray | null {
  if (head === 'goal') return cast.goalMatch;
  return head === 'last_user' ? cast.lastUserMatch : cast.lastResultMatch;
}

function readGroup(match: RegExpExecArray | null, group: string): string {
  if (match === null) return '';
  return (/^\d+$/.test(group) ? match[Number(group)] : match.groups?.[group]) ?? '';
}

/** The names and numbers by which a pattern's groups can be quoted. */
export function listGroups(regex: RegExp | undefined): Set<string> {
  if (!regex) return new Set();
  const empty = new RegExp(`${regex.source}|`, regex.flags).exec('');
  return new Set([
    ...Array.from({ length: empty?.length ?? 0 }, (_, i) => String(i)),
    ...Object.keys(empty?.groups ?? {}),
  ]);
}

export function compileTemplate(text: string, groups: Groups): Compiled<Template> {
  const problems: string[] = [];
  const parts: (string | Slot)[] = [];
  let isNumber = false;
  for (const [index, piece] of text.split(/\{\{(.*?)\}\}/s).entries()) {
    if (index % 2 === 0) {
      if (piece !== '') parts.push(piece);
      continue;
    }
    const [path = '', ...filterTexts] = piece.split('|').map((word) => word.trim());
    const read = makeRead(path, groups);
    const filters = filterTexts.map((filterText) => {
      const colon = filterText.indexOf(':');
      const name = colon < 0 ? filterText : filterText.slice(0, colon);
      if (name === 'number') isNumber = true;
      return makeFilter(name, colon < 0 ? undefined : filterText.slice(colon + 1));
    });
    for (const made of [read, ...filters]) if (typeof made === 'string') problems.push(made);
    if (problems.length === 0) parts.push({ read: read as Read, filters: filters as Filter[] });
  }
  return { value: { parts, isNumber: isNumber && parts.length === 1 }, problems };
}

export function compileValue(value: unknown, groups: Groups): Compiled<ValueTemplate> {
  if (typeof value === 'string' && value.includes('{{')) {
    const { value: template, problems } = compileTemplate(value, groups);
    return { value: { kind: 'template', template }, problems };
  }
  if (Array.isArray(value)) {
    const items = value.map((item) => compileValue(item, groups));
    return {
      value: { kind: 'list', items: items.map((item) => item.value) },
      problems: items.flatMap((item) => item.problems),
    };
  }
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value).map(
      ([key, item]) => [key, compileValue(item, groups)] as const,
    );
    return {
      value: { kind: 'object', entries: entries.map(([key, item]) => [key, item.value]) },
      problems: entries.flatMap(([, item]) => item.problems),
    };
  }
  return { value: { kind: 'literal', value }, problems: [] };
}

export function fillTemplate(template: Template, cast: Cast): string {
  let text = '';
  for (const part of template.parts) {
    if (typeof part === 'string') {
      text += part;
      continue;
    }
    let value = part.read(cast);
    for (const filter of part.filters) value = filter(value);
    text += value;
  }
  return text;
}

export function fillValue(value: ValueTemplate, cast: Cast): unknown {
  switch (value.kind) {
    case 'literal':
      return value.value;
    case 'template': {
      const text = fillTemplate(value.template, cast);
      return value.template.isNumber ? Number(text) || 0 : text;
    }
    case 'list':
      return value.items.map((item) => fillValue(item, cast));
    case 'object':
      return Object.fromEntries(value.entries.map(([key, item]) => [key, fillValue(item, cast)]));
  }
}

/** Numbers are kept between their limits, because a goal's text may ask for anything. */
export function fillAmount(
  amount: number | Template,
  cast: Cast,
  limits: { readonly min: number; readonly max: number },
): number {
  const value = typeof amount === 'number' ? amount : Number(fillTemplate(amount, cast));
  return Math.min(limits.max, Math.max(limits.min, Number.isFinite(value) ? value : limits.min));
}
