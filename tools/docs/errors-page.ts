// docs/errors.md: the fault table as people read it.
import { STATUS_CODES } from 'node:http';

export type FaultTable = Record<
  string,
  { http: number; exit: number; retry: boolean; hint: string }
>;

export function writeErrorsPage(faults: FaultTable): string {
  const rows = Object.entries(faults).map(([code, { http, exit, retry, hint }]) => {
    const status = `${http} ${STATUS_CODES[http] ?? ''}`.trim();
    return `| \`${code}\` | ${hint} | ${status} | ${exit} | ${retry ? 'yes' : 'no'} |`;
  });
  return `# Errors

<!-- Made by tools/docs.ts from src/wire/errors.ts. Change that, then run: make docs -->

Every error has a code from this table, over every link and in every client. The message says what
happened and to what; the hint says what to do next. The response body is

    {"error": {"code": "not_found", "message": "…", "hint": "…", "retry": false}}

with \`retry_after_ms\` when the time to wait is known, and \`details\` when there are more.
*Try again* says whether the same request can succeed later, *exit* is agentctl's exit status.

| code | what to do | HTTP | exit | try again |
|---|---|---|---|---|
${rows.join('\n')}
`;
}
