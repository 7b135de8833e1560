// agentctl model budget: show the budgets, or set one.
import { fault } from '../../../wire/errors.ts';
import type { BudgetPeriod, BudgetView } from '../../../wire/modeld.ts';
import type { Args, Session } from '../command.ts';
import type { Out } from '../out.ts';
import { readUsd } from '../read-amounts.ts';
import { formatCount, formatMoney, formatRelative } from '../show/amounts.ts';
import { renderTable } from '../show/table.ts';

type Subject = BudgetView['subject'];
const SUBJECTS: readonly Subject[] = ['site', 'day', 'agent', 'task', 'key', 'person'];
const PERIODS: readonly BudgetPeriod[] = ['day', 'month', 'total'];

const HEADERS = [
  { title: 'FOR' },
  { title: 'TOKENS', align: 'right' },
  { title: 'OF', align: 'right' },
  { title: 'COST', align: 'right' },
  { title: 'OF', align: 'right' },
  { title: 'RENEWS' },
] as const;

export async function budget(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const limits = readLimits(args);
  const [subject, name = ''] = readSubject(args);
  if (limits !== undefined) {
    if (subject === undefined) throw missingScopeFault();
    const body = { subject, name, ...limits, ...readPeriod(args, subject) };
    await assertExists(session, subject, name);
    const answer = await runtime().call('modeld', 'setBudget', { body });
    return out.print(answer, () => renderBudgets([answer.budget], out));
  }
  const { budgets } = await runtime().call('modeld', 'listBudgets', {});
  const shown = budgets.filter(
    (one) =>
      subject === undefined || (one.subject === subject && (name === '' || one.name === name)),
  );
  out.print({ budgets: shown }, () =>
    shown.length === 0
      ? ['No budget is set: agentctl model budget --help']
      : renderBudgets(shown, out),
  );
}

/** A limit for a mistyped name would have no effect. */
async function assertExists({ runtime }: Session, subject: Subject, name: string): Promise<void> {
  if (subject === 'agent') await runtime().call('agentd', 'getAgent', { params: { name } });
  if (subject === 'task') await runtime().call('agentd', 'getTask', { params: { id: name } });
  if (subject === 'key') await runtime().call('modeld', 'getKey', { params: { name } });
}

const missingScopeFault = () =>
  fault('bad_usage', 'a budget needs a scope', {
    hint: 'For example: agentctl model budget agent coder --cost 5',
  });

function readSubject(args: Args): [Subject | undefined, string | undefined] {
  const [word, name] = args.positionals;
  if (word === undefined) return [undefined, undefined];
  const subject = SUBJECTS.find((known) => known === word);
  const needsName = subject !== 'site' && subject !== 'day';
  if (subject === undefined) {
    throw fault('bad_usage', `unknown budget scope '${word}'`, {
      hint: `Use one of: ${SUBJECTS.join(', ')}`,
    });
  }
  if (readLimits(args) !== undefined && needsName && name === undefined) throw missingScopeFault();
  if (!needsName && name !== undefined) {
    throw fault('bad_usage', `the ${subject} budget takes no name`, {
      hint: `Set it: agentctl model budget ${subject} --cost USD`,
    });
  }
  return [subject, name];
}

function readPeriod(args: Args, subject: Subject): { period?: BudgetPeriod } {
  const text = args.text('per');
  if (text === undefined) return {};
  const period = PERIODS.find((known) => known === text);
  if (period !== undefined && (subject === 'key' || subject === 'person')) return { period };
  throw fault('bad_usage', `--per ${text} does not fit the ${subject} budget`, {
    hint: 'Only budgets of keys and people have a period: --per day, month or total',
  });
}

function readLimits(args: Args) {
  const tokens = args.text('tokens');
  const cost = args.text('cost');
  if (tokens === undefined && cost === undefined) {
    if (args.text('per') === undefined) return undefined;
    throw fault('bad_usage', '--per without an amount', { hint: 'Add --cost USD or --tokens N.' });
  }
  return {
    ...(tokens === undefined ? {} : { tokens_limit: readLimit('tokens', tokens, readCount) }),
    ...(cost === undefined ? {} : { cost_limit_microusd: readLimit('cost', cost, readUsd) }),
  };
}

const readCount = (text: string): number | undefined =>
  /^\d{1,15}$/.test(text) ? Number(text) : undefined;

function readLimit(name: string, text: string, read: (text: string) => number | undefined) {
  if (text === 'none') return null;
  const value = read(text);
  if (value !== undefined) return value;
  throw fault('bad_usage', `--${name} ${text} is neither an amount nor 'none'`, {
    hint: 'For example: --cost 2.50, --tokens 100000, --cost none',
  });
}

function renderBudgets(budgets: readonly BudgetView[], out: Out): string[] {
  const now = Date.now();
  const rows = budgets.map((view) => [
    // A task id needs no prefix, and stays whole so that it can be copied.
    view.subject === 'task' ? view.name : [view.subject, view.name].filter(Boolean).join(' '),
    formatCount(view.tokens_spent + view.tokens_reserved),
    view.tokens_limit === null ? 'no limit' : formatCount(view.tokens_limit),
    formatMoney(view.cost_spent_microusd + view.cost_reserved_microusd),
    view.cost_limit_microusd === null ? 'no limit' : formatMoney(view.cost_limit_microusd),
    view.renews_at === null ? 'never' : formatRelative(view.renews_at, now),
  ]);
  return renderTable(HEADERS, rows, out);
}
