// Irregular English forms and their base forms: verbs, plurals and a few adjectives. Forms that are
// more often another word ("found", "saw", "left", "felt") are listed where the verb prevails.

const VERBS = `
arise arose arisen
awake awoke awoken
be am is are was were been being
bear bore borne
beat beaten
become became
begin began begun
bend bent
bet
bind bound
bite bit bitten
bleed bled
blow blew blown
break broke broken
breed bred
bring brought
build built
burn burnt
buy bought
catch caught
choose chose chosen
cling clung
come came
creep crept
deal dealt
die dying
dig dug
do does did done doing
draw drew drawn
dream dreamt
drink drank drunk
drive drove driven
dwell dwelt
eat ate eaten
fall fell fallen
feed fed
feel felt
fight fought
find found
flee fled
fling flung
fly flew flown
forbid forbade forbidden
forget forgot forgotten
forgive forgave forgiven
freeze froze frozen
get got gotten
give gave given
go goes went gone
grind ground
grow grew grown
hang hung
have has had having
hear heard
hide hid hidden
hold held
keep kept
kneel knelt
know knew known
lay laid
lead led
lean leant
leap leapt
learn learnt
leave left
lend lent
lie lying lain
light lit
lose lost
make made
mean meant
meet met
mistake mistook mistaken
overcome overcame
pay paid
prove proven
ride rode ridden
ring rang rung
rise rose risen
run ran
say said
see saw seen
seek sought
sell sold
send sent
sew sewn
shake shook shaken
shine shone
shoot shot
show shown
shrink shrank shrunk
sing sang sung
sink sank sunk
sit sat
sleep slept
slide slid
smell smelt
sneak snuck
speak spoke spoken
speed sped
spell spelt
spend spent
spill spilt
spin spun
spring sprang sprung
stand stood
steal stole stolen
stick stuck
sting stung
stink stank stunk
strike struck stricken
strive strove striven
swear swore sworn
sweep swept
swell swollen
swim swam swum
swing swung
take took taken
teach taught
tear tore torn
tell told
think thought
throw threw thrown
tie tying
understand understood
undergo underwent undergone
wake woke woken
wear wore worn
weave wove woven
weep wept
win won
wind wound
withdraw withdrew withdrawn
write wrote written`;

const NOUNS = `
analysis analyses
calf calves
child children
crisis crises
criterion criteria
diagnosis diagnoses
elf elves
foot feet
goose geese
half halves
hypothesis hypotheses
index indices
knife knives
loaf loaves
man men
matrix matrices
mouse mice
ox oxen
person people persons
phenomenon phenomena
scarf scarves
shelf shelves
thief thieves
tooth teeth
wife wives
wolf wolves
woman women`;

const ADJECTIVES = `
bad worse worst
far farther farthest further furthest
good better best`;

export const IRREGULAR: ReadonlyMap<string, string> = new Map(
  `${VERBS}${NOUNS}${ADJECTIVES}`
    .trim()
    .split('\n')
    .flatMap((line) => {
      const [base = '', ...forms] = line.split(' ');
      return forms.map((form): [string, string] => [form, base]);
    }),
);
