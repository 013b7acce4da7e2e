// How wgmma names the registers of its sums c[j][4], j columns of 8: as operands of inline text,
// and in it. R: how they are used, "+f" or "+r".
#ifndef PF_REGISTERS_HOPPER_H
#define PF_REGISTERS_HOPPER_H

#define PF_FLOATS "+f"
#define PF_INTS "+r"
#define PF_SUMS_1(R, J) R(c[J][0]), R(c[J][1]), R(c[J][2]), R(c[J][3])
#define PF_SUMS_8(R, J)                                                           \
  PF_SUMS_1(R, J), PF_SUMS_1(R, J + 1), PF_SUMS_1(R, J + 2), PF_SUMS_1(R, J + 3), \
      PF_SUMS_1(R, J + 4), PF_SUMS_1(R, J + 5), PF_SUMS_1(R, J + 6), PF_SUMS_1(R, J + 7)
#define PF_NUMBERS_32                                                              \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define PF_NUMBERS_64                                                                 \
  PF_NUMBERS_32                                                                       \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51," \
  "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define PF_NUMBERS_96                                                                 \
  PF_NUMBERS_64                                                                       \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83," \
  "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define PF_NUMBERS_128                                                                      \
  PF_NUMBERS_96                                                                             \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113," \
  "%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#endif
