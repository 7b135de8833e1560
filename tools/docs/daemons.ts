// The tables of daemons in docs/architecture.md: what each one owns, and which routes of its peers
// it may call.
import type { DAEMON_TABLE } from '../../src/wire/daemons.ts';
import type { NamedRoute } from './contract.ts';

export type DaemonTable = Record<string, (typeof DAEMON_TABLE)['agentd']>;

const START =
  '<!-- daemons: made by tools/docs.ts from src/wire. Change that, then run: make docs -->';
const END = '<!-- end of daemons -->';

function writeTables(table: DaemonTable, routes: readonly NamedRoute[]): string {
  const names = Object.keys(table);
  const owns = names.map(
    (name) => `| [${name}](../src/daemons/${name}/README.md) | ${table[name]!.owns} |`,
  );
  const mayCall = (caller: string, callee: string): string => {
    const open = routes.filter(
      ({ daemon, route }) =>
        daemon === callee && (route.callers as readonly string[]).includes(caller),
    );
    return `${callee}: ${open.map(({ name }) => name).join(', ')}`;
  };
  const calls = names.map((name) => {
    const peers = table[name]!.calls.map((callee) => mayCall(name, callee));
    return `| ${name} | ${peers.join(' · ') || 'none'} |`;
  });
  return [
    '| daemon | owns |',
    '|---|---|',
    ...owns,
    '',
    '| caller | routes it may call |',
    '|---|---|',
    ...calls,
  ].join('\n');
}

/** Returns the page with its block of tables renewed. */
export function renewDaemonTables(
  page: string,
  table: DaemonTable,
  routes: readonly NamedRoute[],
): string {
  const [before, rest] = page.split(START);
  const [, after] = rest?.split(END) ?? [];
  if (after === undefined) throw new Error(`docs/architecture.md has no block "${START}"`);
  return `${before}${START}\n\n${writeTables(table, routes)}\n\n${END}${after}`;
}
