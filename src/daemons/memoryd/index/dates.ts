// Dates and spans of time that a question names, and whether a text tells a time. English.

const DAY_MS = 86_400_000;
const MONTHS =
  'january february march april may june july august september october november december'.split(
    ' ',
  );
const WEEKDAYS = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ');
const NUMBERS = 'zero one two three four five six seven eight nine ten eleven twelve'.split(' ');
const MONTH = `(${MONTHS.join('|')})`;
const MONTH_SHORT = `(${MONTHS.join('|')}|${MONTHS.map((month) => `${month.slice(0, 3)}\\.?`).join('|')}|sept\\.?)`;
const YEAR = '((?:19|20)\\d\\d)';
const DAY = '(\\d{1,2})(?:st|nd|rd|th)?';
const UNIT = '(day|week|weekend|month|year)';
const WEEKDAY = `(${WEEKDAYS.join('|')})`;
const COUNT = `(\\d{1,3}|an?|${NUMBERS.join('|')}|few|couple of)`;
const PLAIN_DATE_UNITS: Readonly<Record<string, number>> = {
  day: 1,
  weekend: 7,
  week: 7,
  month: 30,
  year: 365,
};

const TELLS_TIME = new RegExp(
  [
    'yesterday|today|tonight|tomorrow|ago|recently|just|since|soon|weekend|morning|evening|birthday',
    `(?:last|this|next|past|previous) (?:night|summer|winter|spring|fall|autumn|${UNIT.slice(1, -1)})`,
    WEEKDAYS.join('|'),
    MONTHS.filter((month) => month !== 'may' && month !== 'march').join('|'),
    '(?:19|20)\\d\\d',
    `(?:few|couple(?: of)?|\\d+|${NUMBERS.join('|')}) (?:days?|weeks?|months?|years?)`,
  ]
    .map((one) => `\\b(?:${one})\\b`)
    .join('|'),
);

/** Says whether a folded text tells when something happened or will happen. */
export function tellsTime(text: string): boolean {
  return TELLS_TIME.test(text);
}

const ASKS_WHEN =
  /\bwhen\b|\bwhat (?:date|day|year|month|time)\b|\bhow long\b|\bwhich (?:date|day|year|month)\b/;

/** Says whether a folded question asks for a time. */
export function asksWhen(question: string): boolean {
  return ASKS_WHEN.test(question);
}

/** From the first moment to before the last. `slackMs`: how much later one may still tell of it. */
export type TimeSpan = { fromMs: number; toMs: number; slackMs: number };

export type Dates = {
  spans: TimeSpan[];
  /** Months of any year. */
  months: number[];
  /** The question without them. */
  rest: string;
};

const WEEK_MS = 7 * DAY_MS;
const DAY_SLACK_MS = WEEK_MS;
const MONTH_SLACK_MS = 2 * WEEK_MS;

type Rule = readonly [pattern: RegExp, read: (found: string[], now: Date, into: Dates) => void];

const RULES: readonly Rule[] = [
  [/\b(\d{4})-(\d\d)-(\d\d)\b/g, ([y, m, d], _, to) => addDay(to, Number(y), Number(m) - 1, d!)],
  [
    new RegExp(`\\b${DAY}(?: of)? ${MONTH_SHORT},? ${YEAR}\\b`, 'g'),
    ([d, m, y], _, to) => addDay(to, Number(y), monthOf(m!), d!),
  ],
  [
    new RegExp(`\\b${MONTH_SHORT} ${DAY},? ${YEAR}\\b`, 'g'),
    ([m, d, y], _, to) => addDay(to, Number(y), monthOf(m!), d!),
  ],
  [
    new RegExp(`\\b${MONTH},? ${YEAR}\\b`, 'g'),
    ([m, y], _, to) => addMonth(to, Number(y), monthOf(m!)),
  ],
  [
    new RegExp(`\\b${DAY}(?: of)? ${MONTH}\\b`, 'g'),
    ([d, m], now, to) => addPastDay(to, now, m!, d!),
  ],
  [new RegExp(`\\b${MONTH} ${DAY}\\b`, 'g'), ([m, d], now, to) => addPastDay(to, now, m!, d!)],
  [
    new RegExp(
      `\\b(?:in|during|of|last|this|early|late|since|by|until|before|after) ${MONTH}\\b`,
      'g',
    ),
    ([m], _, to) => void to.months.push(monthOf(m!)),
  ],
  [
    new RegExp(`\\b(?:in|during|of|since) ${YEAR}\\b`, 'g'),
    ([y], _, to) => addSpan(to, Date.UTC(Number(y), 0), Date.UTC(Number(y) + 1, 0), 0),
  ],
  [/\byesterday\b/g, (_, now, to) => addDaysAgo(to, now, 1, 1)],
  [/\btoday\b/g, (_, now, to) => addDaysAgo(to, now, 0, 1)],
  [
    new RegExp(`\\b(?:last|past|previous) ${UNIT}\\b`, 'g'),
    ([unit], now, to) => addDaysAgo(to, now, 2 * daysOf(unit!), 2 * daysOf(unit!)),
  ],
  [
    new RegExp(`\\bthis ${UNIT}\\b`, 'g'),
    ([unit], now, to) => addDaysAgo(to, now, daysOf(unit!), daysOf(unit!) + 1),
  ],
  [
    new RegExp(`\\b${COUNT} ${UNIT}s? ago\\b`, 'g'),
    ([count, unit], now, to) => {
      const width = daysOf(unit!);
      addDaysAgo(to, now, countOf(count!) * width + Math.floor(width / 2), width);
    },
  ],
  [
    new RegExp(`\\b(?:last|on|this) ${WEEKDAY}\\b`, 'g'),
    ([day], now, to) => {
      const ago = (now.getUTCDay() - WEEKDAYS.indexOf(day!) + 7) % 7 || 7;
      addDaysAgo(to, now, ago, 1);
    },
  ],
];

/** Reads the dates of a folded question, as seen from `nowMs`. */
export function datesIn(question: string, nowMs: number): Dates {
  const dates: Dates = { spans: [], months: [], rest: question };
  const now = new Date(nowMs);
  for (const [pattern, read] of RULES)
    dates.rest = dates.rest.replace(pattern, (...found) => {
      read(found.slice(1) as string[], now, dates);
      return ' ';
    });
  return dates;
}

const monthOf = (name: string): number => MONTHS.findIndex((m) => m.startsWith(name.slice(0, 3)));
const daysOf = (unit: string): number => PLAIN_DATE_UNITS[unit]!;

function countOf(word: string): number {
  if (/^\d/.test(word)) return Number(word);
  const known = NUMBERS.indexOf(word);
  if (known >= 0) return known;
  return word === 'few' ? 3 : word.startsWith('couple') ? 2 : 1;
}

function addSpan(to: Dates, fromMs: number, toMs: number, slackMs: number): void {
  to.spans.push({ fromMs, toMs, slackMs });
}

function addDay(to: Dates, year: number, month: number, day: string): void {
  const from = Date.UTC(year, month, Number(day));
  addSpan(to, from, from + DAY_MS, DAY_SLACK_MS);
}

/** The last such day before now. */
function addPastDay(to: Dates, now: Date, month: string, day: string): void {
  const year = now.getUTCFullYear();
  const isAhead = Date.UTC(year, monthOf(month), Number(day)) > now.getTime();
  addDay(to, isAhead ? year - 1 : year, monthOf(month), day);
}

function addMonth(to: Dates, year: number, month: number): void {
  addSpan(to, Date.UTC(year, month), Date.UTC(year, month + 1), MONTH_SLACK_MS);
}

function addDaysAgo(to: Dates, now: Date, ago: number, days: number): void {
  const today = Math.floor(now.getTime() / DAY_MS) * DAY_MS;
  addSpan(to, today - ago * DAY_MS, today - (ago - days) * DAY_MS, days * DAY_MS);
}

/** How well a moment fits the dates: 0 to 1. People tell of a day on it or in the days after. */
export function fitOf(dates: Dates, atMs: number): number {
  let best = 0;
  for (const { fromMs, toMs, slackMs } of dates.spans) {
    if (atMs >= fromMs && atMs < toMs) best = Math.max(best, widthFit(toMs - fromMs));
    else if (atMs >= toMs && atMs < toMs + slackMs)
      best = Math.max(best, 1 - (atMs - toMs) / slackMs);
    else if (slackMs === DAY_SLACK_MS && atMs < fromMs && atMs >= fromMs - DAY_MS)
      best = Math.max(best, 0.5);
  }
  const at = new Date(atMs);
  for (const month of dates.months) {
    if (at.getUTCMonth() === month) best = 1;
    const sinceMs = atMs - Date.UTC(at.getUTCFullYear(), at.getUTCMonth());
    if ((at.getUTCMonth() + 11) % 12 === month && sinceMs < MONTH_SLACK_MS)
      best = Math.max(best, 1 - sinceMs / MONTH_SLACK_MS);
  }
  return best;
}

/** That something happened in a year says little. */
const widthFit = (widthMs: number): number => (widthMs > 300 * DAY_MS ? 0.3 : 1);
