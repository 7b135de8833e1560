// The rows of the routes that every daemon has.
import assert from 'node:assert/strict';
import { type Good, rows } from './row.ts';

const nothing = async (): Promise<Good> => ({});

export const COMMON_ROWS = rows({
  health: {
    good: nothing,
    check: (answer: { status: string }) => assert.equal(answer.status, 'ok'),
  },
  metrics: {
    good: nothing,
    check: (answer: string) => assert.match(answer, /^# TYPE agentd_requests_total counter$/m),
  },
});
