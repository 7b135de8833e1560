// Every program without a profile of its own.
import type { Profile } from './profile.ts';

export const generic: Profile = {
  name: 'generic',
  about: 'any other program',
  commands: [],
  env: {},
  homeFiles: [],
  needlessHosts: [],
};
