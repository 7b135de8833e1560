// Compiles and renders the templates of a screenplay: `{{name|filter:argument}}` in any text. They
// are compiled when the screenplay is loaded, which reports unknown names; rendering cannot fail.
import { extractText, type NormalizedRequest } from '../normalized-request.ts';
import { truncateText } from '../split-text.ts';
import { formatSuggestion } from './did-you-mean.ts';

/** A request with the groups that the patterns of the selected scenario captured in it. */
export type MatchContext = {
  readonly request: NormalizedRequest;
  readonly goalMatch: RegExpExecArray | null;
  readonly lastUserMatch: RegExpExecArray | null;
  readonly lastResultMatch: RegExpExecArray | null;
};

type ValueReader = (context: MatchContext) => string;
type TextFilter = (text: string) => string;
type TemplateSlot = { readonly read: ValueReader; readonly filters: readonly TextFilter[] };
export type Template = {
  readonly parts: readonly (string | TemplateSlot)[];
  readonly isNumeric: boolean;
};

export type ValueTemplate =
  | { readonly kind: 'literal'; readonly value: unknown }
  | { readonly kind: 'template'; readonly template: Template }
  | { readonly kind: 'list'; readonly items: readonly ValueTemplate[] }
  | { readonly kind: 'object'; readonly entries: readonly (readonly [string, ValueTemplate])[] };

/** The capture groups that a template may name, per pattern. */
export type CaptureGroups = {
  readonly goal: ReadonlySet<string>;
  readonly last_user: ReadonlySet<string>;
  readonly last_result: ReadonlySet<string>;
};

export type CompiledTemplate<T> = { readonly value: T; readonly problems: readonly string[] };

const SIMPLE_VALUES: Record<string, ValueReader> = {
  agent: (context) => context.request.agent,
  goal: (context) => context.request.goal,
  model: (context) => context.request.model,
  step: (context) => String(context.request.step),
  last_user: (context) => context.request.lastUser,
  last_result: (context) => extractText(context.request.results.at(-1)?.text ?? ''),
  results: (context) =>
    context.request.results.map((result) => extractText(result.text)).join('\n'),
};
const VALUE_NAMES = [
  ...Object.keys(SIMPLE_VALUES),
  'result.N',
  'tool.NAME',
  'goal.GROUP',
  'last_user.GROUP',
];
const FILTER_NAMES = ['short', 'or', 'number'];

function makeFilter(name: string, argument: string | undefined): TextFilter | string {
  switch (name) {
    case 'short': {
      const charsMax = argument === undefined ? 160 : Number(argument);
      if (!Number.isInteger(charsMax) || charsMax < 1)
        return `short needs a length, as in short:80`;
      return (text) =>
        text.length > charsMax ? `${truncateText(text, charsMax).trimEnd()}…` : text;
    }
    case 'or':
      if (argument === undefined) return 'or needs a default text, as in or:nothing';
      return (text) => (text === '' ? argument : text);
    case 'number':
      return (text) => text;
    default:
      return `unknown filter "${name}"; ${formatSuggestion(name, FILTER_NAMES)}`;
  }
}

function makeValueReader(path: string, groups: CaptureGroups): ValueReader | string {
  const simple = SIMPLE_VALUES[path];
  if (simple) return simple;
  const dotIndex = path.indexOf('.');
  const source = dotIndex < 0 ? path : path.slice(0, dotIndex);
  const member = dotIndex < 0 ? '' : path.slice(dotIndex + 1);
  if (source === 'result' && /^[1-9]\d?$/.test(member)) {
    return (context) => extractText(context.request.results[Number(member) - 1]?.text ?? '');
  }
  if (source === 'tool' && member !== '') {
    const name = member.replaceAll('.', '_');
    return (context) =>
      extractText(
        context.request.allResults.findLast((result) => result.tool === name)?.text ?? '',
      );
  }
  if (source === 'goal' || source === 'last_user' || source === 'last_result') {
    if (!groups[source].has(member)) {
      return `the pattern of ${source} captures no group "${member}"; name it (?<${member}>…) there`;
    }
    return (context) => readGroup(selectMatch(context, source), member);
  }
  return `unknown value "${path}"; ${formatSuggestion(path, VALUE_NAMES)}`;
}

function selectMatch(context: MatchContext, source: keyof CaptureGroups): RegExpExecArray | null {
  if (source === 'goal') return context.goalMatch;
  return source === 'last_user' ? context.lastUserMatch : context.lastResultMatch;
}

function readGroup(match: RegExpExecArray | null, group: string): string {
  if (match === null) return '';
  return (/^\d+$/.test(group) ? match[Number(group)] : match.groups?.[group]) ?? '';
}

/** Returns the names and numbers of a pattern's capture groups. */
export function listGroupNames(regex: RegExp | undefined): Set<string> {
  if (!regex) return new Set();
  const emptyMatch = new RegExp(`${regex.source}|`, regex.flags).exec('');
  return new Set([
    ...Array.from({ length: emptyMatch?.length ?? 0 }, (_, i) => String(i)),
    ...Object.keys(emptyMatch?.groups ?? {}),
  ]);
}

export function compileTemplate(text: string, groups: CaptureGroups): CompiledTemplate<Template> {
  const problems: string[] = [];
  const parts: (string | TemplateSlot)[] = [];
  let isNumeric = false;
  for (const [index, piece] of text.split(/\{\{(.*?)\}\}/s).entries()) {
    if (index % 2 === 0) {
      if (piece !== '') parts.push(piece);
      continue;
    }
    const [path = '', ...filterTexts] = piece.split('|').map((segment) => segment.trim());
    const read = makeValueReader(path, groups);
    const filters = filterTexts.map((filterText) => {
      const colonIndex = filterText.indexOf(':');
      const name = colonIndex < 0 ? filterText : filterText.slice(0, colonIndex);
      if (name === 'number') isNumeric = true;
      return makeFilter(name, colonIndex < 0 ? undefined : filterText.slice(colonIndex + 1));
    });
    for (const result of [read, ...filters]) if (typeof result === 'string') problems.push(result);
    if (problems.length === 0)
      parts.push({ read: read as ValueReader, filters: filters as TextFilter[] });
  }
  return { value: { parts, isNumeric: isNumeric && parts.length === 1 }, problems };
}

export function compileValue(
  value: unknown,
  groups: CaptureGroups,
): CompiledTemplate<ValueTemplate> {
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

export function renderTemplate(template: Template, context: MatchContext): string {
  let text = '';
  for (const part of template.parts) {
    if (typeof part === 'string') {
      text += part;
      continue;
    }
    let value = part.read(context);
    for (const filter of part.filters) value = filter(value);
    text += value;
  }
  return text;
}

export function renderValue(value: ValueTemplate, context: MatchContext): unknown {
  switch (value.kind) {
    case 'literal':
      return value.value;
    case 'template': {
      const text = renderTemplate(value.template, context);
      return value.template.isNumeric ? Number(text) || 0 : text;
    }
    case 'list':
      return value.items.map((item) => renderValue(item, context));
    case 'object':
      return Object.fromEntries(
        value.entries.map(([key, item]) => [key, renderValue(item, context)]),
      );
  }
}

/** Clamps the number to the limits, because a goal may contain any number. */
export function renderNumber(
  template: number | Template,
  context: MatchContext,
  limits: { readonly min: number; readonly max: number },
): number {
  const value = typeof template === 'number' ? template : Number(renderTemplate(template, context));
  return Math.min(limits.max, Math.max(limits.min, Number.isFinite(value) ? value : limits.min));
}
