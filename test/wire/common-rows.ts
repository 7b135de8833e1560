// The rows of the routes that every daemon has.
import assert from 'node:assert/strict';
import { type Good, rows } from './row.ts';

const nothing = async (): Promise<Good> => ({});

export const COMMON_ROWS = rows({
  health: {
    good: nothing,
    check: (response: { status: string }) => assert.equal(response.status, 'ok'),
  },
  metrics: {
    good: nothing,
    check: (response: string) => assert.match(response, /^# TYPE agentd_requests_total counter$/m),
  },
});
