// Claude Code. It finds the models through ANTHROPIC_BASE_URL, and asks about a key in
// ANTHROPIC_API_KEY, but not about a token.
import type { Profile } from './profile.ts';

export const claudeCode: Profile = {
  name: 'claude-code',
  about: 'Claude Code of Anthropic',
  commands: ['claude'],
  package: { name: '@anthropic-ai/claude-code', version: '2.1.327' },
  env: {
    ANTHROPIC_API_KEY: '',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
  },
  homeFiles: [
    {
      path: '.claude.json',
      content: JSON.stringify({
        hasCompletedOnboarding: true,
        projects: { '/workspace': { hasTrustDialogAccepted: true } },
      }),
    },
  ],
  needlessHosts: ['api.anthropic.com', 'statsig.anthropic.com', 'downloads.claude.ai'],
  round: (prompt) => ['-p', '--dangerously-skip-permissions', prompt],
  nextRound: (prompt) => ['-c', '-p', '--dangerously-skip-permissions', prompt],
};
