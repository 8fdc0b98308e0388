// The frames are chosen so that German grammar never depends on a value: counted nouns are plural
// and counts start at two, cities take no article, no name stands in the genitive, and nouns are
// used only in cases that share one form.
#include "corpus/frames.h"

namespace reigen {
namespace {

constexpr SentenceFrame kFrames[] = {
    // Counts in words.
    {"{name} bought {count} {things} in {city}.", "{name} hat in {city} {count} {things} gekauft."},
    {"{name} sold {count} {things} on {weekday}.",
     "{name} hat am {weekday} {count} {things} verkauft."},
    {"There are {count} {people} waiting for {name} in {city}.",
     "In {city} warten {count} {people} auf {name}."},
    {"In {month}, {count} {people} came to {city}.",
     "Im {month} kamen {count} {people} nach {city}."},
    {"Please send {count} {things} to {name} in {city}.",
     "Bitte schicken Sie {count} {things} an {name} in {city}."},
    {"{name} needs another {count} {things} by {weekday}.",
     "{name} braucht bis {weekday} noch {count} {things}."},
    {"In {year}, {count} {people} moved to {city}.",
     "Im Jahr {year} zogen {count} {people} nach {city}."},
    {"The hotel in {city} was built in {year} and has {count} rooms.",
     "Das Hotel in {city} wurde {year} gebaut und hat {count} Zimmer."},
    {"It is {count} kilometers from {city} to {city2}.",
     "Von {city} nach {city2} sind es {count} Kilometer."},
    {"{name} paid {count} {currency} for {item}.",
     "{name} hat {count} {currency} für {item} bezahlt."},
    {"In {year}, the company in {city} sold {many} {things}.",
     "Im Jahr {year} verkaufte die Firma in {city} {many} {things}."},
    {"The stadium in {city} has room for {seats} {people}.",
     "Das Stadion in {city} hat Platz für {seats} {people}."},

    // Ordinals: after an article (-e, -n), after "Ihr" and "unser" (-r, -s), and in digits.
    {"{name} sent the {ordinal} letter from {city}.",
     "{name} hat den {ordinal.n} Brief aus {city} geschickt."},
    {"{name} sold the {ordinal} ticket on {weekday}.",
     "{name} hat am {weekday} die {ordinal} Karte verkauft."},
    {"{name} lost the {ordinal} game against {name2}.",
     "{name} hat das {ordinal} Spiel gegen {name2} verloren."},
    {"Your {ordinal} letter to {name} has arrived in {city}.",
     "Ihr {ordinal.r} Brief an {name} ist in {city} angekommen."},
    {"Our {ordinal} package for {name} is still in {city}.",
     "Unser {ordinal.s} Paket für {name} ist noch in {city}."},
    {"{name} flew to {city} for the {ordinal} time.",
     "{name} ist zum {ordinal.n} Mal nach {city} geflogen."},
    {"{name} finished {rank} in the race in {city}.",
     "{name} belegte beim Rennen in {city} den {rank} Platz."},

    // Dates.
    {"{name} was born on {past} in {city}.", "{name} wurde am {past} in {city} geboren."},
    {"{name} moved to {city} on {past}.", "{name} ist am {past} nach {city} gezogen."},
    {"{name} has been living in {city} since {since}.", "{name} wohnt seit dem {since} in {city}."},
    {"{name} and {name2} got married on {past}.", "{name} und {name2} haben am {past} geheiratet."},
    {"The contract with {name} ends on {future}.", "Der Vertrag mit {name} endet am {future}."},
    {"{name} booked a flight to {city} for {future}.",
     "{name} hat für den {future} einen Flug nach {city} gebucht."},
    {"Next meeting with {name} in {city}: {weekday_date}.",
     "Nächstes Treffen mit {name} in {city}: {weekday_date}."},
    {"The invoice for {name} is dated {short_date}.",
     "Die Rechnung für {name} ist vom {short_date}."},
    {"The exhibition in {city} opens on {day} at {daytime}.",
     "Die Ausstellung in {city} öffnet am {day} um {daytime}."},
    {"{name} arrives in {city} on {day} at {clock}.",
     "{name} kommt am {day} um {clock} in {city} an."},

    // Times of day.
    {"The train to {city} leaves at {time} from platform {platform}.",
     "Der Zug nach {city} fährt um {time} von Gleis {platform} ab."},
    {"On {weekday}, the flight from {city} lands at {time}.",
     "Am {weekday} landet der Flug aus {city} um {time}."},
    {"{name} called on {weekday} at {daytime}.", "{name} hat am {weekday} um {daytime} angerufen."},
    {"The lesson with {name} starts at {daytime}, not at {daytime2}.",
     "Der Unterricht mit {name} beginnt um {daytime}, nicht um {daytime2}."},
    {"{name} is meeting {name2} at {daytime} in {city}.",
     "{name} trifft {name2} um {daytime} in {city}."},

    // Money.
    {"{name} paid {cost} for {item}.", "{name} hat {cost} für {item} bezahlt."},
    {"On {weekday}, a ticket to {city} costs {fare}.",
     "Am {weekday} kostet eine Fahrkarte nach {city} {fare}."},
    {"{name} still owes {name2} {price}.", "{name} schuldet {name2} noch {price}."},
    {"{name} donated {sum} {currency} to the school in {city}.",
     "{name} hat der Schule in {city} {sum} {currency} gespendet."},
    {"According to {name}, the bridge in {city} cost {decimal} million {currency}.",
     "Laut {name} hat die Brücke in {city} {decimal} Millionen {currency} gekostet."},

    // Measures and other figures.
    {"In {city}, prices rose by {percent} in {year}.",
     "In {city} stiegen die Preise im Jahr {year} um {percent}."},
    {"{name} cycled {decimal} kilometers in {city} on {weekday}.",
     "{name} ist am {weekday} in {city} {decimal} Kilometer Rad gefahren."},
    {"The package from {city} for {name} weighs {decimal} kilograms.",
     "Das Paket aus {city} für {name} wiegt {decimal} Kilogramm."},
    {"On {day}, it was {degrees} degrees in {city}.",
     "Am {day} waren es in {city} {degrees} Grad."},
    {"In {year}, {city} had {figure} inhabitants.",
     "Im Jahr {year} hatte {city} {figure} Einwohner."},
    {"{name} is staying in room {room} of the hotel in {city}.",
     "{name} wohnt in Zimmer {room} des Hotels in {city}."},
};

constexpr WordPair kNames[] = {
    {"Anna", "Anna"},   {"Aylin", "Aylin"},   {"Ben", "Ben"},     {"Clara", "Clara"},
    {"David", "David"}, {"Emma", "Emma"},     {"Felix", "Felix"}, {"Greta", "Greta"},
    {"Ida", "Ida"},     {"Jonas", "Jonas"},   {"Karl", "Karl"},   {"Laura", "Laura"},
    {"Max", "Max"},     {"Mehmet", "Mehmet"}, {"Nina", "Nina"},   {"Oscar", "Oscar"},
    {"Paul", "Paul"},   {"Rosa", "Rosa"},     {"Simon", "Simon"}, {"Thomas", "Thomas"},
    {"Vera", "Vera"},   {"Walter", "Walter"}, {"Yusuf", "Yusuf"}, {"Zoe", "Zoe"},
};

constexpr WordPair kCities[] = {
    {"Berlin", "Berlin"},         {"Hamburg", "Hamburg"}, {"Munich", "München"},
    {"Cologne", "Köln"},          {"Leipzig", "Leipzig"}, {"Nuremberg", "Nürnberg"},
    {"Vienna", "Wien"},           {"Zurich", "Zürich"},   {"Geneva", "Genf"},
    {"Prague", "Prag"},           {"Rome", "Rom"},        {"Milan", "Mailand"},
    {"Venice", "Venedig"},        {"Paris", "Paris"},     {"Brussels", "Brüssel"},
    {"Warsaw", "Warschau"},       {"Lisbon", "Lissabon"}, {"Athens", "Athen"},
    {"Copenhagen", "Kopenhagen"}, {"London", "London"},
};

constexpr WordPair kThings[] = {
    {"books", "Bücher"},         {"bags", "Taschen"},   {"chairs", "Stühle"},
    {"bottles", "Flaschen"},     {"photos", "Fotos"},   {"boxes", "Kisten"},
    {"cups", "Tassen"},          {"lamps", "Lampen"},   {"stamps", "Briefmarken"},
    {"postcards", "Postkarten"}, {"flowers", "Blumen"}, {"eggs", "Eier"},
    {"apples", "Äpfel"},         {"plates", "Teller"},  {"candles", "Kerzen"},
    {"tickets", "Karten"},
};

constexpr WordPair kPeople[] = {
    {"visitors", "Besucher"}, {"guests", "Gäste"},       {"students", "Studenten"},
    {"children", "Kinder"},   {"tourists", "Touristen"}, {"teachers", "Lehrer"},
    {"doctors", "Ärzte"},     {"workers", "Arbeiter"},   {"farmers", "Bauern"},
    {"artists", "Künstler"},  {"musicians", "Musiker"},  {"fans", "Fans"},
};

constexpr WordPair kItems[] = {
    {"the bicycle", "das Fahrrad"},   {"the sofa", "das Sofa"},
    {"the camera", "die Kamera"},     {"the coat", "den Mantel"},
    {"the table", "den Tisch"},       {"the clock", "die Uhr"},
    {"the computer", "den Computer"}, {"the piano", "das Klavier"},
    {"the painting", "das Gemälde"},  {"the boat", "das Boot"},
    {"the carpet", "den Teppich"},    {"the tent", "das Zelt"},
};

// "Britische Pfund" and the like are left out: whether the adjective takes a capital is disputed.
constexpr WordPair kCurrencies[] = {
    {"euros", "Euro"},
    {"US dollars", "US-Dollar"},
    {"Swiss francs", "Schweizer Franken"},
};

}  // namespace

std::span<const SentenceFrame> sentence_frames() { return kFrames; }
std::span<const WordPair> name_words() { return kNames; }
std::span<const WordPair> city_words() { return kCities; }
std::span<const WordPair> thing_words() { return kThings; }
std::span<const WordPair> people_words() { return kPeople; }
std::span<const WordPair> item_words() { return kItems; }
std::span<const WordPair> currency_words() { return kCurrencies; }

}  // namespace reigen
